// Tables and JSON of advice.
#include "report/advice_table.h"

#include <array>
#include <cstdio>

#include "base/bytes.h"
#include "plan/techniques.h"
#include "report/table.h"

namespace fathom::report {
namespace {

using plan::Combination;

std::string format_number(double number, const char* format) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, number);
  return text.data();
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text.append(text.empty() ? "" : between).append(word);
  return text;
}

std::string need_of(const plan::Candidate& candidate) {
  return format_bytes(candidate.proof ? candidate.proof->need : candidate.formula);
}

std::string fit_of(const plan::Candidate& candidate) {
  if (!candidate.proof) return "by formula";
  if (!candidate.proof->fits) return "does not fit, dry-run";
  return candidate.proof->near_limit ? "fits, dry-run; near the limit" : "fits, dry-run";
}

std::string describe_limit(const std::optional<plan::Candidate>& answer) {
  if (!answer || !answer->proof->near_limit) return "";
  return "Near the limit: what the driver takes beside LibTorch's allocator (context, kernels) is not proved to fit. A "
         "smaller --budget leaves it room.\n";
}

std::string describe_subject(const AdviceSubject& subject) {
  const plan::Target& target = subject.question.target;
  const bool gpu = target.device == config::Device::kCuda;
  return std::string(gpu ? "On GPU " + target.name : "On the CPU") + ", within " + format_bytes(target.capacity_bytes) +
         (gpu ? " for LibTorch's allocator" : " for live bytes and kernel scratch") + ". As it is, the run needs " +
         format_bytes(subject.as_it_is.need) + (subject.as_it_is.fits ? " and fits.\n" : " and does not fit.\n");
}

std::string settings_line(const AdviceSubject& subject, const config::RunConfig& run) {
  const std::vector<std::string> settings = plan::settings_between(subject.question.run, run);
  return settings.empty() ? "the run as it is" : joined(settings, " ");
}

std::string time_of(const Combination& combination) {
  if (combination.seconds) return format_number(*combination.seconds, *combination.seconds < 10 ? "%.3f s" : "%.1f s");
  const double operations = static_cast<double>(combination.arithmetic.matrix_flops) +
                            static_cast<double>(combination.arithmetic.attention_flops);
  return format_number(operations, "%.3g operations");
}

std::string combinations_table(const std::vector<Combination>& combinations) {
  Table table({{"techniques", Align::kLeft}, {"needs"}, {"", Align::kLeft}, {"step"}});
  for (const Combination& each : combinations) {
    table.add_row({joined(each.techniques, ", "), need_of(each), fit_of(each), time_of(each)});
  }
  return table.format();
}

std::string alone_table(const std::vector<plan::Remedy>& alone) {
  Table table({{"alone", Align::kLeft}, {"saves"}, {"leaves"}, {"arithmetic"}, {"", Align::kLeft}});
  for (const plan::Remedy& remedy : alone) {
    table.add_row({joined(remedy.settings, " "), format_bytes(remedy.saved_bytes), format_bytes(remedy.peak),
                   remedy.work ? format_number(*remedy.work, "× %.2f") : std::string(kMissing), remedy.note});
  }
  return table.format();
}

std::string describe_best(const AdviceSubject& subject, const plan::Advice& advice, const std::string& what) {
  if (!advice.best) {
    return what + ": nothing fits. The smallest, " + joined(advice.smallest->techniques, ", ") + ", needs " +
           need_of(*advice.smallest) + ".\n";
  }
  std::string text = what + ":\n  " + settings_line(subject, advice.best->run) + "\n";
  if (!advice.settled) {
    text += "Not settled after " + format_count(advice.dry_runs) +
            " dry runs: it is the fastest of those that they proved to fit, and a faster one may fit too.\n";
  }
  if (!advice.next) return text + (advice.settled ? "No combination is faster.\n" : "");
  return text + "The next faster one, " + joined(advice.next->techniques, ", ") + ", needs " + need_of(*advice.next) +
         (advice.next->proof ? " and does not fit (dry-run).\n" : " by formula.\n");
}

Json candidate_json(const AdviceSubject& subject, const plan::Candidate& candidate) {
  return {{"settings", plan::settings_between(subject.question.run, candidate.run)},
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
  json["operations"] = combination.arithmetic.matrix_flops + combination.arithmetic.attention_flops;
  json["expected_seconds"] = combination.seconds ? Json(*combination.seconds) : Json(nullptr);
  return json;
}

Json subject_json(const AdviceSubject& subject) {
  const plan::Target& target = subject.question.target;
  return {{"device", target.device == config::Device::kCuda ? "cuda" : "cpu"},
          {"name", target.name},
          {"capacity", target.capacity_bytes},
          {"as_it_is", {{"dry_run", subject.as_it_is.need}, {"fits", subject.as_it_is.fits}}}};
}

Json search_json(const AdviceSubject& subject, const plan::Advice& advice) {
  Json json = {{"best", or_null(subject, advice.best, combination_json)},
               {"next", or_null(subject, advice.next, combination_json)},
               {"smallest", or_null(subject, advice.smallest, combination_json)},
               {"fitting", Json::array()},
               {"combinations", advice.combinations},
               {"reckoned", advice.reckoned},
               {"dry_runs", advice.dry_runs},
               {"settled", advice.settled}};
  for (const Combination& each : advice.fitting) json["fitting"].push_back(combination_json(subject, each));
  return json;
}

}  // namespace

std::string format_largest(const AdviceSubject& subject, plan::Vary vary, const plan::Largest& largest) {
  std::string text = describe_subject(subject) + "\n";
  Table table({{plan::key_of(vary), Align::kLeft}, {"needs"}, {"", Align::kLeft}});
  for (const auto* candidate : {&largest.fits, &largest.exceeds}) {
    if (!*candidate) continue;
    table.add_row({format_count(plan::value_of(vary, (*candidate)->run)), need_of(**candidate), fit_of(**candidate)});
  }
  text += table.format() + "\n";
  if (!largest.fits) {
    text += "Not even the smallest value fits; `fathom advise` without --vary looks for other settings.\n";
  } else {
    text += "Largest that fits:\n  " + std::string(plan::key_of(vary)) + "=" +
            std::to_string(plan::value_of(vary, largest.fits->run)) + "\n";
    if (!largest.exceeds) text += "It is the largest that makes a difference to this run.\n";
  }
  text += describe_limit(largest.fits);
  return text + format_count(largest.reckoned) + " values by formula, " + format_count(largest.dry_runs) +
         " by dry run.\n";
}

std::string format_advice(const AdviceSubject& subject, const plan::Advice& advice, const plan::Advice* same_method,
                          const std::vector<plan::Remedy>& alone) {
  std::string text = describe_subject(subject) + "\n";
  if (!advice.fitting.empty()) text += combinations_table(advice.fitting) + "\n";
  text += describe_best(subject, advice, "Least time") + describe_limit(advice.best);
  if (same_method != nullptr) {
    const bool full = subject.question.run.method == config::Method::kFull;
    text +=
        describe_best(subject, *same_method, full ? "Least time with method: full" : "Least time with method: lora");
  }
  text += format_count(advice.combinations) + " combinations: " + format_count(advice.reckoned) + " by formula, " +
          format_count(advice.dry_runs + (same_method != nullptr ? same_method->dry_runs : 0)) +
          " by dry run; the others follow, since memory grows with the batch.\n";
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
