// Memory by formulas that a person can check by hand, from a model's shape and a run's settings: the size of every
// tensor is a product of a few numbers, and which tensors are alive together follows from the order of the step's
// operators (plan/analytic_operators.h), written down without ATen and without a phantom. Where the dry run differs,
// one of the two is wrong.
#pragma once

#include "arch/shape.h"
#include "config/run_config.h"
#include "plan/plan.h"

namespace fathom::plan {

// What training takes at its largest instant. Uses target.device and target.attention_kernel, and of the workload the
// steps, the evaluations and the ring's capacity. Sizes that leave int64 are refused with Error.
Analytic estimate_analytic(const arch::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload);

}  // namespace fathom::plan
