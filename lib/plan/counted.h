// Whether what counts memory has seen any: two figures agree for nothing where both are of nothing.
#pragma once

#include <string>

#include "plan/plan.h"

namespace fathom::plan {

// Of a whole run, as planned or as measured: why its figures are none. Empty: something was counted.
std::string why_uncounted(const Plan& plan);
std::string why_uncounted(const Measured& measured);

}  // namespace fathom::plan
