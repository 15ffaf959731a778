// Tables and JSON of advice.
#include "report/advice_table.h"

#include <algorithm>
#include <limits>

#include "base/bytes.h"
#include "base/json_value.h"
#include "base/numbers.h"
#include "plan/advice/memory_keys.h"
#include "plan/advice/techniques.h"
#include "plan/time/cost.h"
#include "report/advice_words.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using plan::Combination;

std::string fit_of(const plan::Candidate& candidate) {
  if (!candidate.proof) return "by formula";
  if (candidate.proof->near_limit) return "near the limit";
  return candidate.proof->fits ? "fits" : "does not fit";
}

std::string time_of(const Combination& combination) {
  if (combination.seconds) return format_by(*combination.seconds < 10 ? "%.3f s" : "%.1f s", *combination.seconds);
  const plan::Arithmetic arithmetic = combination.arithmetic.whole();
  const double operations =
      static_cast<double>(arithmetic.matrix_flops) + static_cast<double>(arithmetic.attention_flops);
  return format_by("%.3g TFLOP", operations / 1e12);
}

// A row of the table whose first cell may take several lines.
void add_folded(Table& table, const std::string& text, int64_t width, std::vector<std::string> others) {
  std::string lines = folded(text, width);
  const size_t columns = others.size() + 1;
  while (true) {
    const size_t end = lines.find('\n');
    std::vector<std::string> cells = {lines.substr(0, end)};
    cells.insert(cells.end(), others.begin(), others.end());
    table.add_row(std::move(cells));
    if (end == std::string::npos) return;
    lines.erase(0, end + 1);
    others.assign(columns - 1, "");
  }
}

std::string combinations_table(const std::vector<Combination>& combinations) {
  constexpr int64_t kNames = 38;
  Table table({{"techniques", Align::kLeft}, {"needs"}, {"", Align::kLeft}, {"step"}});
  for (const Combination& each : combinations) {
    add_folded(table, joined(each.techniques, ", "), kNames, {need_of(each), fit_of(each), time_of(each)});
  }
  const auto keeps_update = [](const Combination& each) { return each.change == plan::UpdateChange::kNone; };
  const bool both = std::any_of(combinations.begin(), combinations.end(), keeps_update) &&
                    !std::all_of(combinations.begin(), combinations.end(), keeps_update);
  if (!both) return table.format();
  return table.format() + folded(
                              "Rows with another optimizer than the run's own come last, however fast they are: their "
                              "update is another, or rounded.\n");
}

std::string alone_table(const std::vector<plan::Remedy>& alone) {
  constexpr int64_t kSettings = 42;
  Table table({{"alone", Align::kLeft}, {"saves"}, {"leaves"}, {"arithmetic"}});
  for (const plan::Remedy& remedy : alone) {
    add_folded(table, joined(remedy.settings, " "), kSettings,
               {format_bytes(remedy.saved_bytes), format_bytes(remedy.peak),
                remedy.work ? format_by("× %.2f", *remedy.work) : std::string(kMissing)});
    add_folded(table, "  " + remedy.note, kSettings, {"", "", ""});
  }
  return table.format();
}

Json candidate_json(const AdviceSubject& subject, const plan::Candidate& candidate) {
  return {{"settings", plan::settings_between(subject.question.run.config, candidate.run)},
          {"formula", candidate.formula},
          {"dry_run", candidate.proof ? Json(candidate.proof->need) : Json(nullptr)},
          {"fits", candidate.proof ? Json(candidate.proof->fits) : Json(nullptr)},
          {"near_limit", candidate.proof && candidate.proof->near_limit}};
}

template <typename T>
Json or_null(const AdviceSubject& subject, const std::optional<T>& candidate,
             Json (*write)(const AdviceSubject&, const T&)) {
  return candidate ? write(subject, *candidate) : Json(nullptr);
}

Json combination_json(const AdviceSubject& subject, const Combination& combination) {
  Json json = candidate_json(subject, combination);
  json["techniques"] = combination.techniques;
  json["update"] = combination.change == plan::UpdateChange::kNone        ? "the same"
                   : combination.change == plan::UpdateChange::kRounded   ? "rounded states"
                   : combination.change == plan::UpdateChange::kUnclipped ? "unclipped"
                                                                          : "another";
  const plan::Arithmetic arithmetic = combination.arithmetic.whole();
  json["operations"] = arithmetic.matrix_flops + arithmetic.attention_flops;
  json["exposed_communication_seconds"] = combination.exposed_seconds;
  json["host_bytes"] = combination.host_bytes;
  json["exposed_host_seconds"] = combination.host_seconds;
  json["not_run_on_gpus"] = subject.question.target.device == config::Device::kCuda
                                ? Json(plan::untried_on_gpus(combination.run))
                                : Json::array();
  json["expected_seconds"] = combination.seconds ? Json(*combination.seconds) : Json(nullptr);
  return json;
}

Json subject_json(const AdviceSubject& subject) {
  const plan::Target& target = subject.question.target;
  const std::string& refused = subject.as_it_is_refused;
  return {{"device", target.device == config::Device::kCuda ? "cuda" : "cpu"},
          {"name", target.name},
          {"capacity", target.capacity_bytes},
          {"free", subject.free_bytes},
          {"host", subject.question.host_bytes ? Json(*subject.question.host_bytes) : Json(nullptr)},
          {"as_it_is",
           {{"dry_run", refused.empty() ? Json(subject.as_it_is.need) : Json(nullptr)},
            {"fits", subject.as_it_is.fits},
            {"refused", refused.empty() ? Json(nullptr) : Json(refused)}}}};
}

Json search_json(const AdviceSubject& subject, const plan::Advice& advice) {
  Json json = {{"best", or_null(subject, advice.best, combination_json)},
               {"next", or_null(subject, advice.next, combination_json)},
               {"smallest", or_null(subject, advice.smallest, combination_json)},
               {"smallest_tried", or_null(subject, advice.smallest_tried, combination_json)},
               {"untried", or_null(subject, advice.untried, combination_json)},
               {"fitting", Json::array()},
               {"combinations", advice.combinations},
               {"reckoned", advice.reckoned},
               {"dry_runs", advice.dry_runs},
               {"enough", advice.enough ? Json(*advice.enough) : Json(nullptr)},
               {"settled", advice.settled},
               {"by_room", advice.by_room}};
  for (const Combination& each : advice.fitting) json["fitting"].push_back(combination_json(subject, each));
  return json;
}

constexpr double kBillion = 1e9;  // tokens

std::optional<double> tokens_per_second(const OfGpus& row) {
  if (!row.best || !row.best->seconds) return std::nullopt;
  return static_cast<double>(row.best->tokens * row.gpus) / *row.best->seconds;
}

// Of a billion tokens.
std::optional<plan::Cost> cost_of(const OfGpus& row, double price_per_hour) {
  const auto speed = tokens_per_second(row);
  if (!speed) return std::nullopt;
  return plan::cost_of({kBillion, std::nullopt, row.gpus, std::nullopt}, *speed / static_cast<double>(row.gpus),
                       price_per_hour);
}

// The fewest GPUs of those that cost no more than a percent above the least. Where no speed is known, the fewest that
// hold the run.
const OfGpus* cheapest(const std::vector<OfGpus>& rows) {
  constexpr double kAlike = 1.01;
  double least = std::numeric_limits<double>::infinity();
  for (const OfGpus& row : rows) {
    if (const auto cost = cost_of(row, 0)) least = std::min(least, cost->gpu_hours);
  }
  for (const OfGpus& row : rows) {
    const auto cost = cost_of(row, 0);
    if (row.best && (!cost || cost->gpu_hours <= kAlike * least)) return &row;
  }
  return nullptr;
}

const OfGpus* fastest(const std::vector<OfGpus>& rows) {
  const OfGpus* best = nullptr;
  for (const OfGpus& row : rows) {
    if (row.best && (best == nullptr || tokens_per_second(row) > tokens_per_second(*best))) best = &row;
  }
  return best;
}

}  // namespace

std::string format_gpus(const AdviceSubject& subject, const std::vector<OfGpus>& rows, double price_per_hour) {
  constexpr int64_t kNames = 34;
  Table table({{"GPUs"}, {"techniques", Align::kLeft}, {"needs"}, {"tokens/s"}, {"GPU hours"}, {"$"}});
  for (const OfGpus& row : rows) {
    if (!row.best) {
      table.add_row({format_count(row.gpus), "nothing fits", "", "", "", ""});
      continue;
    }
    const auto speed = tokens_per_second(row);
    const auto cost = cost_of(row, price_per_hour);
    const bool priced = cost && cost->price_per_hour > 0;
    std::string names = folded(joined(row.best->techniques, ", "), kNames);
    for (bool first = true; first || !names.empty(); first = false) {
      const size_t end = std::min(names.find('\n'), names.size());
      const std::string name = names.substr(0, end);
      names.erase(0, end + 1);
      if (first) {
        table.add_row({format_count(row.gpus), name, need_of(*row.best),
                       speed ? format_by("%.0f", *speed) : std::string(kMissing),
                       cost ? format_by("%.1f", cost->gpu_hours) : std::string(kMissing),
                       priced ? format_by("%.2f", cost->dollars()) : std::string(kMissing)});
      } else {
        table.add_row({"", name, "", "", "", ""});
      }
    }
  }
  std::string text = folded(describe_subject(subject)) + "\n\n" + table.format();
  text += folded(
      "GPU hours and dollars are of a billion tokens. A step takes as many times the batches as there are GPUs. Time "
      "is "
      "expected, with communication reckoned, and measured by nobody.\n");
  const auto add = [&](const char* what, const OfGpus* row) {
    if (row == nullptr) return;
    text += std::string(what) + " that fits, on " + format_count(row->gpus) +
            (row->gpus == 1 ? " GPU:\n" : " GPUs:\n") + settings_lines(subject, row->best->run);
  };
  add("Cheapest", cheapest(rows));
  add("Fastest", fastest(rows));
  return text;
}

Json gpus_json(const AdviceSubject& subject, const std::vector<OfGpus>& rows, double price_per_hour) {
  Json json = {{"target", subject_json(subject)}, {"gpus", Json::array()}};
  for (const OfGpus& row : rows) {
    const auto speed = tokens_per_second(row);
    const auto cost = cost_of(row, price_per_hour);
    json["gpus"].push_back(
        {{"gpus", row.gpus},
         {"best", or_null(subject, row.best, combination_json)},
         {"tokens_per_second_of_all", speed ? Json(*speed) : Json(nullptr)},
         {"gpu_hours_for_1e9_tokens", cost ? Json(cost->gpu_hours) : Json(nullptr)},
         {"dollars_for_1e9_tokens", cost && cost->price_per_hour > 0 ? Json(cost->dollars()) : Json(nullptr)}});
  }
  const auto count = [](const OfGpus* row) { return row == nullptr ? Json(nullptr) : Json(row->gpus); };
  json["cheapest"] = count(cheapest(rows));
  json["fastest"] = count(fastest(rows));
  return json;
}

std::string format_largest(const AdviceSubject& subject, plan::Vary vary, const plan::Largest& largest) {
  std::string text = folded(describe_subject(subject)) + "\n\n";
  Table table({{plan::key_of(vary), Align::kLeft}, {"needs"}, {"", Align::kLeft}});
  for (const auto* candidate : {&largest.fits, &largest.exceeds}) {
    if (!*candidate) continue;
    table.add_row({format_count(plan::value_of(vary, (*candidate)->run)), need_of(**candidate), fit_of(**candidate)});
  }
  text += table.format() + "\n";
  if (!largest.fits) {
    text += folded("Not even the smallest value fits; `fathom advise` without --vary looks for other settings.\n");
  } else {
    text += "Largest that fits:\n  " + std::string(plan::key_of(vary)) + "=" +
            std::to_string(plan::value_of(vary, largest.fits->run)) + "\n";
    if (!largest.exceeds) text += "It is the largest that makes a difference to this run.\n";
  }
  text += folded(describe_limit(subject, largest.fits));
  return text + format_count(largest.reckoned) + " values by formula, " + format_count(largest.dry_runs) +
         " by dry run.\n";
}

std::string format_advice(const AdviceSubject& subject, const plan::Advice& advice, const plan::Advice* same_method,
                          const std::vector<plan::Remedy>& alone) {
  std::string text = folded(describe_subject(subject)) + "\n\n";
  if (!advice.fitting.empty()) text += combinations_table(advice.fitting) + "\n";
  text += describe_best(subject, advice, "");
  if (same_method != nullptr) {
    const bool full = subject.question.run.config.method == config::Method::kFull;
    text += describe_best(subject, *same_method, full ? " with method: full" : " with method: lora");
  }
  text +=
      folded(format_count(advice.combinations) + " combinations: " + format_count(advice.reckoned) + " by formula, " +
             format_count(advice.dry_runs + (same_method != nullptr ? same_method->dry_runs : 0)) +
             " by dry run; the others follow, since memory grows with the batch.\n");
  if (advice.best && !advice.best->seconds) {
    text += subject.question.target.device == config::Device::kCuda
                ? "Ordered by arithmetic: configs/gpus.yaml does not list this GPU's speed.\n"
                : folded("Ordered by arithmetic: this CPU is not calibrated (`fathom doctor --calibrate`).\n");
  }
  if (!alone.empty()) text.append("\n").append(alone_table(alone));
  return text;
}

Json largest_json(const AdviceSubject& subject, plan::Vary vary, const plan::Largest& largest) {
  const auto value = [&](const std::optional<plan::Candidate>& candidate) {
    return candidate ? Json(plan::value_of(vary, candidate->run)) : Json(nullptr);
  };
  return {{"target", subject_json(subject)},
          {"vary", plan::key_of(vary)},
          {"largest", value(largest.fits)},
          {"next", value(largest.exceeds)},
          {"fits", or_null(subject, largest.fits, candidate_json)},
          {"exceeds", or_null(subject, largest.exceeds, candidate_json)},
          {"values", {largest.values.lowest, largest.values.highest}},
          {"reckoned", largest.reckoned},
          {"dry_runs", largest.dry_runs}};
}

Json advice_json(const AdviceSubject& subject, const plan::Advice& advice, const plan::Advice* same_method,
                 const std::vector<plan::Remedy>& alone) {
  Json json = {{"target", subject_json(subject)}};
  json.update(search_json(subject, advice));
  json["same_method"] = same_method != nullptr ? search_json(subject, *same_method) : Json(nullptr);
  json["alone"] = Json::array();
  for (const plan::Remedy& remedy : alone) {
    json["alone"].push_back({{"name", remedy.name},
                             {"settings", remedy.settings},
                             {"saved", remedy.saved_bytes},
                             {"peak", remedy.peak},
                             {"arithmetic", remedy.work ? Json(*remedy.work) : Json(nullptr)},
                             {"note", remedy.note}});
  }
  return json;
}

}  // namespace fathom::report
