// `fathom estimate`: what a run will take, before it runs.
#include <iostream>

#include "app/commands.h"
#include "app/machine.h"
#include "app/planning.h"
#include "app/session.h"
#include "plan/dry_run.h"
#include "report/memory_json.h"
#include "report/memory_table.h"

namespace fathom::app {
namespace {

// The subject of `estimate MODEL`: batches of max_length, accumulated as the config says, and no data.
plan::Workload full_batches(const config::RunConfig& config, const model::ModelShape& shape) {
  const train::BatchShape batch{config.per_device_train_batch_size, config.max_length};
  return plan::make_workload(config, shape,
                             train::maximal_shapes({train::StepShape(config.gradient_accumulation_steps, batch)}), {});
}

plan::Workload workload_of(const Invocation& invocation, const train::RunInputs& inputs) {
  const config::RunConfig& config = invocation.config;
  if (inputs.train.examples.empty()) return full_batches(config, inputs.shape);
  return plan::make_workload(config, inputs.shape, train::maximal_steps(config, inputs.train),
                             train::evaluation_shapes(config, inputs.validation));
}

}  // namespace

int run_estimate(const Invocation& invocation) {
  const config::RunConfig& config = invocation.config;
  const Session session = open_session(invocation);
  const train::RunInputs inputs = train::open_inputs(config, /*weights_required=*/false);
  const plan::Subject subject{config, inputs.shape, *inputs.folder, workload_of(invocation, inputs)};
  std::optional<config::GpuSpec> gpu = invocation.gpu;
  if (!gpu && session.placement.cuda != nullptr) gpu = spec_of(*session.placement.cuda);
  const plan::Plan plan =
      gpu ? plan_for_gpu(subject, *gpu, invocation.placements) : plan::plan_cpu(subject, available_memory_bytes());
  if (invocation.json) {
    std::cout << format_json(report::memory_json({plan, std::nullopt}));
  } else {
    std::cout << report::format_memory({plan, std::nullopt});
  }
  return 0;
}

}  // namespace fathom::app
