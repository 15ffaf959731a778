// Compares what is needed with what is there.
#include "plan/fit.h"

namespace fathom::plan {

Fit fit_of(const Plan& plan) {
  const int64_t capacity = plan.target.capacity_bytes;
  if (!plan.gpu) return capacity == 0 || plan.dry_run.peak <= capacity ? Fit::kFits : Fit::kDoesNotFit;
  if (!plan.gpu->fits) return Fit::kDoesNotFit;
  const int64_t share = plan.gpu->overhead.value_or(kUncertainBytes);
  return plan.gpu->reserved_range.highest <= capacity - share ? Fit::kFits : Fit::kUncertain;
}

}  // namespace fathom::plan
