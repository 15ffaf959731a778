// Compares what is needed with what is there.
#include "plan/fit.h"

#include "plan/bound.h"
#include "plan/host.h"

namespace fathom::plan {

Fit fit_of(const Plan& plan) {
  if (missing_bytes(plan) > 0) return Fit::kDoesNotFit;
  if (!plan.gpu) {
    const bool known = plan.target.capacity_bytes > 0 && !plan.target.within_budget;
    return known && most_resident_growth(plan) > plan.target.capacity_bytes ? Fit::kUncertain : Fit::kFits;
  }
  // memory_budget bounds the allocator alone.
  const int64_t share = plan.target.within_budget ? 0 : plan.gpu->overhead.value_or(kUncertainBytes);
  return plan.gpu->reserved_range.highest <= plan.target.capacity_bytes - share ? Fit::kFits : Fit::kUncertain;
}

}  // namespace fathom::plan
