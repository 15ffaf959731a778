// Memory by a sum that a person can check by hand: weights, optimizer states and gradients from the table of
// parameters, activations as what each operator of the step declares that it keeps (footprint/footprint.h), and the
// temporaries of the operator at hand. Nothing here says how a step is computed but the order of its operators.
#pragma once

#include "arch/run.h"
#include "plan/plan.h"

namespace fathom::plan {

// What training takes at its largest instant: weights, states and gradients exactly, the whole within a few percent of
// the dry run. Uses target.device and target.attention_kernel, and of the workload the steps, the evaluations and the
// ring's capacity. Sizes that leave int64 are refused with Error.
Analytic estimate_analytic(const arch::Run& run, const Target& target, const Workload& workload);

}  // namespace fathom::plan
