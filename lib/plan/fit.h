// Whether a plan fits its device, and how sure that is.
#pragma once

#include <cstdint>

#include "plan/plan.h"

namespace fathom::plan {

enum class Fit { kFits, kUncertain, kDoesNotFit };

// Not calibrated: the driver's own share (context, modules, what libraries take by themselves) is not known, so nothing
// that comes this near to the capacity is claimed to fit.
inline constexpr int64_t kUncertainBytes = int64_t{2} << 30;

// On a CPU a run does not fit whose live bytes with kernel scratch exceed the capacity; one whose resident memory stays
// below it at most (most_resident_growth) fits. memory_budget bounds the allocator alone, on a CPU and a GPU. On a GPU
// a run that the caching allocator could not hold does not fit; one that it held fits if the driver's share has room
// beside the highest reserved bytes: the calibrated share, or kUncertainBytes where there is none. What is left in
// between is uncertain. Without a known capacity all fits.
Fit fit_of(const Plan& plan);

}  // namespace fathom::plan
