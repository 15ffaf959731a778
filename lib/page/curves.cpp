// Picks series and axes.
#include "page/curves.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "page/html.h"
#include "page/line_figure.h"
#include "report/preference_numbers.h"

namespace fathom::page {
namespace {

using Points = std::vector<std::pair<double, double>>;

constexpr size_t kPoints = 600;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// "4.5e-05".
std::string scientific(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}
std::string loss_text(double value) { return decimal(value, 4); }
std::string reward_text(double value) { return decimal(value, 3); }
std::string count_text(double value) { return format_count(std::llround(std::clamp(value, -9e18, 9e18))); }
std::string step_text(double value) { return count_text(value); }
std::string speed_text(double value) { return count_text(value) + " tokens/s"; }
std::string rate_text(double value) { return value == 0 ? "0" : scientific(value); }
std::string short_text(double value) { return decimal(value, value < 0.1 ? 4 : value < 10 ? 2 : 0); }
// Powers of ten, so without decimals.
std::string seconds_label(double value) {
  if (value >= 1) return decimal(value, 0) + " s";
  return value >= 1e-3 ? decimal(value * 1e3, 0) + " ms" : decimal(value * 1e6, 0) + " µs";
}
std::string length_text(double value) { return count_text(value); }
// Powers of two, so without decimals.
std::string bytes_label(double value) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    unit++;
  }
  return decimal(value, 0) + " " + kUnits[unit];
}
std::string length_label(double value) { return value >= 1024 ? decimal(value / 1024, 0) + "K" : decimal(value, 0); }

template <typename Metrics, typename Of>
Points points_of(const std::vector<Metrics>& metrics, Of of) {
  Points points;
  for (const Metrics& one : metrics) {
    const double value = of(one);
    if (std::isfinite(value)) points.emplace_back(static_cast<double>(one.step), value);
  }
  std::stable_sort(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return points;
}

std::pair<double, double> range_of(const std::vector<LineFigure::Series>& series, bool of_y) {
  double lowest = std::numeric_limits<double>::infinity(), highest = -lowest;
  for (const auto& one : series) {
    for (const auto& point : one.points) {
      const double value = of_y ? point.second : point.first;
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
  }
  return {lowest, highest};
}

// Steps from the first to the last, without empty margins.
Axis step_axis(const std::vector<LineFigure::Series>& series) {
  const auto [lowest, highest] = range_of(series, false);
  Axis axis = linear_axis(lowest, std::max(highest, lowest + 1), 8);
  Axis tight{.first = lowest, .last = std::max(highest, lowest + 1), .ticks = {}};
  for (const Tick& tick : axis.ticks) {
    const double at = axis.first + tick.share * (axis.last - axis.first);
    if (at >= tight.first - 1e-9 && at <= tight.last + 1e-9 && std::abs(at - std::round(at)) < 1e-6) {
      tight.ticks.push_back({tight.share(at), tick.label});
    }
  }
  return tight;
}

// A logarithmic axis for what falls or rises by much, with the linear one a button away.
void choose_axis(LineFigure& figure) {
  const auto [lowest, highest] = range_of(figure.series, true);
  const Axis linear = linear_axis(lowest > 0 && lowest < highest * 0.5 ? 0 : lowest, highest, 5);
  figure.y = linear;
  if (!(lowest > 0) || highest < 3 * lowest) return;
  figure.y = tight_logarithmic_axis(lowest, highest, short_text);
  figure.linear = linear;
}

// The lowest evaluation after the first step.
void add_best(LineFigure& figure, const Points& evaluation) {
  const auto best = std::min_element(evaluation.begin(), evaluation.end(), [](const auto& a, const auto& b) {
    return (a.first > 0 ? a.second : kInfinity) < (b.first > 0 ? b.second : kInfinity);
  });
  if (evaluation.size() < 2 || best->first == 0) return;
  figure.mark = {best->first, best->second, "best, step " + step_text(best->first) + ": " + loss_text(best->second)};
}

std::string loss_figure(const RunRecord& record) {
  LineFigure figure;
  figure.title = "Loss";
  figure.x_title = "step";
  figure.value = loss_text;
  figure.position = step_text;
  const Points training = points_of(record.steps, [](const report::StepMetrics& metrics) { return metrics.loss; });
  const Points evaluation =
      points_of(record.evaluations, [](const report::EvaluationMetrics& metrics) { return metrics.eval_loss; });
  if (!training.empty())
    figure.series.push_back({"training", "s0", thinned(training, kPoints), LineFigure::Marks::kLine});
  if (!evaluation.empty())
    figure.series.push_back({"evaluation", "s1", thinned(evaluation, kPoints), LineFigure::Marks::kBoth});
  if (figure.series.empty()) return "";
  figure.x = step_axis(figure.series);
  choose_axis(figure);
  add_best(figure, evaluation);
  figure.label = "Loss over steps";
  if (!training.empty()) {
    figure.label +=
        ": training from " + loss_text(training.front().second) + " to " + loss_text(training.back().second);
  }
  if (evaluation.size() > 1) {
    figure.label +=
        "; evaluation from " + loss_text(evaluation.front().second) + " to " + loss_text(evaluation.back().second);
  }
  return figure.format();
}

// How near answers come to the data's, from 0 to 1; empty where evaluations wrote none.
std::string answers_figure(const RunRecord& record) {
  const auto of = [&](std::optional<double> report::EvaluationMetrics::*share) {
    return points_of(record.evaluations, [share](const report::EvaluationMetrics& metrics) {
      return (metrics.*share).value_or(std::numeric_limits<double>::quiet_NaN());
    });
  };
  const Points exact = of(&report::EvaluationMetrics::eval_exact_match);
  const Points rouge_l = of(&report::EvaluationMetrics::eval_rouge_l);
  if (exact.empty() || rouge_l.empty()) return "";
  LineFigure figure;
  figure.title = "Answers";
  figure.x_title = "step";
  figure.value = loss_text;
  figure.position = step_text;
  figure.series.push_back({"exact match", "s0", thinned(exact, kPoints), LineFigure::Marks::kBoth});
  figure.series.push_back({"ROUGE-L", "s1", thinned(rouge_l, kPoints), LineFigure::Marks::kBoth});
  figure.x = step_axis(figure.series);
  figure.y = linear_axis(0, 1, 5);
  figure.label = "Answers of evaluations over steps: at the end " + loss_text(exact.back().second) +
                 " exact, ROUGE-L " + loss_text(rouge_l.back().second);
  return figure.format();
}

struct PreferenceLine {
  std::string_view number;  // of report::kPreferenceNumbers
  const char* called;
  bool of_evaluations = false;
};

// Of preferences; empty where the run has none.
std::string preference_figure(const RunRecord& record, const char* title, const std::vector<PreferenceLine>& lines) {
  LineFigure figure;
  figure.title = title;
  figure.x_title = "step";
  figure.value = reward_text;
  figure.position = step_text;
  figure.label = std::string(title) + " over steps, at the end";
  for (const PreferenceLine& line : lines) {
    const auto number = [&line](const auto& metrics) {
      return report::number_of(metrics.more, line.number).value_or(std::numeric_limits<double>::quiet_NaN());
    };
    const Points points = line.of_evaluations ? points_of(record.evaluations, number) : points_of(record.steps, number);
    if (points.empty()) continue;
    figure.label +=
        (figure.series.empty() ? " " : ", ") + std::string(line.called) + " " + reward_text(points.back().second);
    figure.series.push_back({line.called, "s" + std::to_string(&line - lines.data()), thinned(points, kPoints),
                             line.of_evaluations ? LineFigure::Marks::kBoth : LineFigure::Marks::kLine});
  }
  if (figure.series.empty()) return "";
  figure.x = step_axis(figure.series);
  const auto [lowest, highest] = range_of(figure.series, true);
  figure.y = linear_axis(std::min(lowest, 0.0), std::max(highest, lowest + 1e-3), 5);
  return figure.format();
}

std::string preference_figures(const RunRecord& record) {
  return preference_figure(record, "Rewards",
                           {{report::kChosenReward, "chosen"},
                            {report::kRejectedReward, "rejected"},
                            {report::kRewardMargin, "margin"}}) +
         preference_figure(record, "Share of preferences whose chosen answer has the greater reward",
                           {{report::kRewardAccuracy, "training"}, {report::kRewardAccuracy, "evaluation", true}});
}

// One figure of the logged steps; empty where none of them has it.
std::string step_figure(const RunRecord& record, const char* title, double report::StepMetrics::*figure_of,
                        std::string (*text)(double), bool may_be_logarithmic) {
  const Points points =
      points_of(record.steps, [figure_of](const report::StepMetrics& metrics) { return metrics.*figure_of; });
  if (points.empty()) return "";
  LineFigure figure;
  figure.title = title;
  figure.x_title = "step";
  figure.value = text;
  figure.position = step_text;
  figure.series.push_back({title, "s2", thinned(points, kPoints), LineFigure::Marks::kLine});
  figure.x = step_axis(figure.series);
  figure.y = linear_axis(0, range_of(figure.series, true).second, 5);
  if (may_be_logarithmic) choose_axis(figure);
  figure.label = std::string(title) + " over steps, at the end " + text(points.back().second);
  return figure.format();
}

// Up to eight times the longest batch of the run, four lengths at least: what lies beyond says nothing of this run.
Json attention_in_reach(const Json& memory) {
  constexpr size_t kLengthsAtLeast = 4;
  double longest = 0;
  for (const Json& step : list_at(memory, {"workload", "steps"})) {
    if (!step.is_array()) continue;
    for (const Json& batch : step) {
      if (batch.is_array() && batch.size() > 1 && batch[1].is_number())
        longest = std::max(longest, batch[1].get<double>());
    }
  }
  Json rows = Json::array();
  for (const Json& row : list_at(memory, {"attention"})) {
    const double length = number_at(row, {"length"}).value_or(0);
    if (longest > 0 && rows.size() >= kLengthsAtLeast && length > 8 * longest) continue;
    rows.push_back(row);
  }
  return rows;
}

// Lengths and figures of one kernel, of those rows that have them.
Points attention_points(const Json& attention, const char* kernel, const char* what) {
  Points points;
  for (const Json& row : attention) {
    const auto length = number_at(row, {"length"}), figure = number_at(row, {kernel, what});
    if (length && figure && *length > 0 && *figure > 0) points.emplace_back(*length, *figure);
  }
  std::stable_sort(points.begin(), points.end());
  return points;
}

// The dry run as lines and measured figures as dots; what has no dry run is measured as lines with dots.
void add_attention(LineFigure& figure, const Json& attention, const char* dry_run, const char* measured) {
  for (const auto& [kernel, style] : {std::pair{"math", "s1"}, std::pair{"flash", "s0"}}) {
    const Points lines = attention_points(attention, kernel, dry_run);
    const Points dots = attention_points(attention, kernel, measured);
    const std::string name = kernel;
    if (!lines.empty()) figure.series.push_back({name + ", dry run", style, lines, LineFigure::Marks::kLine});
    if (!dots.empty()) {
      const auto marks = lines.empty() ? LineFigure::Marks::kBoth : LineFigure::Marks::kDots;
      figure.series.push_back({name + ", measured", style, dots, marks});
    }
  }
}

std::string attention_figure(LineFigure figure, double base, std::string (*tick)(double)) {
  if (figure.series.empty()) return "";
  const auto [lowest, highest] = range_of(figure.series, true);
  const auto [shortest, longest] = range_of(figure.series, false);
  figure.x_title = "tokens in a sequence";
  figure.position = length_text;
  figure.x = logarithmic_axis(shortest, longest, 2, length_label, 6);
  figure.y = logarithmic_axis(lowest, highest, base, tick, 6);
  figure.label = figure.title + " of attention over the length of a sequence, both axes logarithmic";
  return figure.format();
}

}  // namespace

std::string training_section(const RunRecord& record) {
  using report::StepMetrics;
  const std::string figures =
      loss_figure(record) + preference_figures(record) + answers_figure(record) +
      step_figure(record, "Throughput in tokens per second", &StepMetrics::tokens_per_second, speed_text, false) +
      step_figure(record, "Learning rate", &StepMetrics::learning_rate, rate_text, false) +
      step_figure(record, "Norm of the gradients", &StepMetrics::grad_norm, short_text, true);
  if (figures.empty()) return "";
  const bool smoothed = figures.find("class=\"spread ") != std::string::npos;
  return "<section id=\"training\">\n<h2>The course of the run</h2>\n" +
         std::string(smoothed ? "<p>Where there are many points the line is their mean, stretch by stretch, the band "
                                "their least and most.</p>\n"
                              : "") +
         "<div class=\"pair\">" + figures + "</div></section>\n";
}

std::string attention_section(const Json& memory) {
  const Json attention = attention_in_reach(memory);
  LineFigure bytes, seconds;
  bytes.title = "Memory";
  bytes.value = bytes_text;
  add_attention(bytes, attention, "dry_run", "measured");
  seconds.title = "Time";
  seconds.value = format_seconds;
  add_attention(seconds, attention, "", "seconds");
  const std::string figures = attention_figure(bytes, 2, bytes_label) + attention_figure(seconds, 10, seconds_label);
  if (figures.empty()) return "";
  return "<section id=\"attention\">\n<h2>Attention: math against flash</h2>\n<p>One layer, one sequence, forward and "
         "backward. Math attention keeps a score for every pair of tokens, flash attention none: memory grows with the "
         "square of the length, or with the length. Lines "
         "are the dry run where there is one, dots are measured.</p>\n<div class=\"pair\">" +
         figures + "</div></section>\n";
}

}  // namespace fathom::page
