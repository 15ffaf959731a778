// What fits, as tables, settings to paste, and JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/advice/remedies.h"
#include "plan/advice/search.h"

namespace fathom::report {

// What all answers are about.
struct AdviceSubject {
  const plan::Question& question;
  plan::Proof as_it_is;               // of question.run
  std::string as_it_is_refused = {};  // why the hardware does not run it at all; empty: it does
  int64_t free_bytes = 0;             // that an answer leaves where one can; of these
  int64_t desktop_bytes = 0;          //   so many for a desktop
  std::string defaults = {};          // of a model without a config: what question.run is (describe_defaults)
};

// Of a model that is planned without a config: "the defaults (full, FP32, 8 × 1,024)", or with the settings that were
// given in front: "max_length=2048 and else the defaults (full, FP32, 8 × 2,048)".
std::string describe_defaults(const std::vector<std::string>& given, const arch::Run& run);

// "largest batch": the value that fits, the next one, and the settings.
std::string format_largest(const AdviceSubject& subject, plan::Vary vary, const plan::Largest& largest);
// The fastest settings that fit; those that keep the run's method, where the fastest change it (else null); and what
// each technique alone would save.
std::string format_advice(const AdviceSubject& subject, const plan::Advice& advice, const plan::Advice* same_method,
                          const std::vector<plan::Remedy>& alone);

// Of a number of GPUs: the fastest settings that fit; nullopt: none do.
struct OfGpus {
  int64_t gpus = 1;
  std::optional<plan::Combination> best;
};
// Their expected speed, and what a billion tokens cost; the cheapest and the fastest of them. price_per_hour: of one
// GPU; 0: not known.
std::string format_gpus(const AdviceSubject& subject, const std::vector<OfGpus>& rows, double price_per_hour);
Json gpus_json(const AdviceSubject& subject, const std::vector<OfGpus>& rows, double price_per_hour);

// Bytes are exact numbers; `settings` are key=value texts; what is not known is null.
Json largest_json(const AdviceSubject& subject, plan::Vary vary, const plan::Largest& largest);
Json advice_json(const AdviceSubject& subject, const plan::Advice& advice, const plan::Advice* same_method,
                 const std::vector<plan::Remedy>& alone);

}  // namespace fathom::report
