// What the optimizer keeps between steps and takes within one, by formulas. No torch header.
#pragma once

#include "plan/analytic_account.h"
#include "plan/analytic_operators.h"

namespace fathom::plan {

// States, from before the first step to the last.
void account_for_states(const StepSettings& settings, Account& account);
// Within a step, while all gradients are there: their norm, then the update, a parameter or a group of
// them at a time.
void account_for_update(const StepSettings& settings, Account& account);

}  // namespace fathom::plan
