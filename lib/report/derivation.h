// How a plan's figures come about: the formula's account of its peak, and the rules of thumb beside the run.
#pragma once

#include <string>

#include "plan/plan.h"

namespace fathom::report {

// The analytic account of the peak with its numbers filled in: each tensor by component, what one layer holds of it and
// in how many layers it is alive, sums, and where each formula comes from. The sums add up to the analytic peak.
std::string format_derivation(const plan::Analytic& analytic);

// The rules of thumb with what they say of this model and how far off they are; only those meant for a run like this
// one unless all are asked for, which come with the reasons.
std::string format_rules(const plan::Comparison& comparison, bool all);

}  // namespace fathom::report
