// Memory by closed formulas that a person can check by hand, from a model's shape and a run's settings.
// Neither ATen nor a phantom is used: where the dry run differs, one of the two is wrong.
#pragma once

#include "base/dtype.h"
#include "config/run_config.h"
#include "model/shape.h"
#include "plan/plan.h"

namespace fathom::plan {

// The type that base weights are stored in: the config's, else float32 for full training and the checkpoint's under
// LoRA.
DType weight_dtype(const model::ModelShape& shape, const config::RunConfig& run);
// Elements of the LoRA matrices; 0 for full training.
int64_t adapter_parameter_count(const model::ModelShape& shape, const config::RunConfig& run);

// What training takes at its largest instant. Uses target.device and target.attention_kernel, and of the workload the
// batches, the accumulation and the ring. Sizes that leave int64 are refused with Error.
Analytic estimate_analytic(const model::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload);

}  // namespace fathom::plan
