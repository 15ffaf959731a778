// Steps and evaluations as lines of JSON.
#include "report/metrics.h"

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "report/preference_numbers.h"

namespace fathom::report {

double as_double(const Number& number) {
  return std::visit([](auto value) { return static_cast<double>(value); }, number);
}

std::optional<double> number_of(const Scalars& scalars, std::string_view name) {
  const auto found = std::find_if(scalars.begin(), scalars.end(), [&](const auto& each) { return each.first == name; });
  return found == scalars.end() ? std::nullopt : std::optional(as_double(found->second));
}

std::string describe(const EvaluationMetrics& metrics) {
  std::string text =
      "loss " + format_decimal(metrics.eval_loss, 4) + " over " + format_count(metrics.eval_tokens) + " tokens";
  if (const auto accuracy = number_of(metrics.more, std::string(kOfEvaluation) + std::string(kRewardAccuracy))) {
    text += "; " + format_decimal(100 * *accuracy, 1) + " % of the preferences gained more for the chosen answer";
  }
  if (!metrics.eval_exact_match || !metrics.eval_rouge_l) return text;
  return text + "; " + format_decimal(100 * *metrics.eval_exact_match, 1) + " % of the answers exact, ROUGE-L " +
         format_decimal(*metrics.eval_rouge_l, 4);
}

static void write(const Scalars& scalars, Json& line) {
  for (const auto& [name, number] : scalars) {
    std::visit([&, &name = name](auto value) { line[name] = value; }, number);
  }
}

void MetricsFile::append(const StepMetrics& metrics) {
  Json line = {{"step", metrics.step},
               {"epoch", metrics.epoch},
               {"loss", metrics.loss},
               {"learning_rate", metrics.learning_rate},
               {"grad_norm", metrics.grad_norm},
               {"clipped_share", metrics.clipped_share},
               {"tokens", metrics.tokens},
               {"tokens_per_second", metrics.tokens_per_second},
               {"interval_seconds", metrics.interval_seconds},
               {"step_seconds", metrics.step_seconds},
               {"live_bytes", metrics.live_bytes},
               {"peak_bytes", metrics.peak_bytes}};
  write(metrics.more, line);
  RunLog::append(line.dump() + "\n");
}

void MetricsFile::append(const EvaluationMetrics& metrics) {
  Json line = {{"step", metrics.step},
               {"epoch", metrics.epoch},
               {"eval_loss", metrics.eval_loss},
               {"eval_tokens", metrics.eval_tokens},
               {"eval_seconds", metrics.eval_seconds}};
  if (metrics.eval_exact_match) line["eval_exact_match"] = *metrics.eval_exact_match;
  if (metrics.eval_rouge_l) line["eval_rougeL"] = *metrics.eval_rouge_l;
  write(metrics.more, line);
  RunLog::append(line.dump() + "\n");
}

}  // namespace fathom::report
