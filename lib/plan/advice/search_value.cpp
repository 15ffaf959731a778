// The largest value of one setting that fits.
#include <algorithm>
#include <limits>
#include <map>

#include "base/error.h"
#include "plan/advice/remedies.h"
#include "plan/advice/search.h"
#include "plan/estimate/analytic.h"

namespace fathom::plan {
namespace {

constexpr int kGuidedDryRuns = 8;  // before the rest is halved

class ValueSearch {
 public:
  ValueSearch(Vary vary, const Values& values, const Question& question)
      : vary_(vary), question_(question), low_(values.lowest - 1), high_(values.highest + 1) {
    result_.values = values;
  }

  Largest take() {
    int64_t value = guess();
    while (high_ - low_ > 1) {
      value = result_.dry_runs < kGuidedDryRuns ? std::clamp(value, low_ + 1, high_ - 1) : low_ + (high_ - low_) / 2;
      try_value(value);
      value = guess();
    }
    return result_;
  }

 private:
  void try_value(int64_t value) {
    Candidate candidate{with_value(vary_, question_.run.config, value), formula(value), std::nullopt};
    candidate.proof = question_.prove(candidate.run);
    ++result_.dry_runs;
    offset_ = candidate.proof->need - candidate.formula;
    const bool fits = candidate.proof->fits;
    (fits ? low_ : high_) = value;
    (fits ? result_.fits : result_.exceeds) = std::move(candidate);
  }

  // The largest value that is open or known to fit and that the formula, put right by the last dry run, lets in.
  int64_t guess() {
    int64_t low = low_, high = high_;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (formula(middle) <= question_.target.capacity_bytes - offset_ ? low : high) = middle;
    }
    return low;
  }

  int64_t formula(int64_t value) {
    const auto known = formulas_.find(value);
    if (known != formulas_.end()) return known->second;
    int64_t bytes = std::numeric_limits<int64_t>::max() / 2;
    try {
      const arch::Run run = arch::resolve(with_value(vary_, question_.run.config, value), question_.run.architecture);
      bytes = estimate_analytic(run, target_of(question_.target, run), question_.workload_of(run)).peak;
    } catch (const Error&) {  // sizes beyond int64: too large in any case
    }
    ++result_.reckoned;
    return formulas_[value] = bytes;
  }

  const Vary vary_;
  const Question& question_;
  Largest result_;
  int64_t low_, high_;  // low_ fits, or is below the lowest; high_ does not, or is beyond the highest
  int64_t offset_ = 0;  // dry run less formula, at the last dry run
  std::map<int64_t, int64_t> formulas_;
};

int64_t config::RunConfig::*member_of(Vary vary) {
  switch (vary) {
    case Vary::kBatch:
      return &config::RunConfig::per_device_train_batch_size;
    case Vary::kLength:
      return &config::RunConfig::max_length;
    case Vary::kRank:
      return &config::RunConfig::lora_r;
  }
  return nullptr;
}

}  // namespace

const char* key_of(Vary vary) {
  switch (vary) {
    case Vary::kBatch:
      return "per_device_train_batch_size";
    case Vary::kLength:
      return "max_length";
    case Vary::kRank:
      return "lora_r";
  }
  return "";
}

int64_t value_of(Vary vary, const config::RunConfig& run) { return run.*member_of(vary); }

config::RunConfig with_value(Vary vary, config::RunConfig run, int64_t value) {
  run.*member_of(vary) = value;
  return run;
}

Largest largest_that_fits(Vary vary, const Values& values, const Question& question) {
  return ValueSearch(vary, values, question).take();
}

}  // namespace fathom::plan
