// Plans for the commands.
#include "app/planning.h"

#include <algorithm>
#include <memory>

#include "app/machine.h"
#include "app/phantom_children.h"
#include "base/bytes.h"
#include "base/error.h"
#include "plan/dry_run.h"

namespace fathom::app {

plan::AskPhantom ask_phantom_children() {
  // A second one halves the time of a plan with many placements; each takes a core and about 300 MB while it lives.
  constexpr size_t kChildren = 2;
  const auto children = std::make_shared<PhantomChildren>(kChildren);
  return [children](const plan::PhantomQuestion& question) { return children->ask(question); };
}

plan::Plan plan_for_gpu(const plan::Subject& subject, const config::GpuSpec& gpu, int placements) {
  return plan::plan_gpu(subject, gpu, placements, ask_phantom_children());
}

plan::Plan plan_of(const config::RunConfig& config, const train::RunInputs& inputs, const Session& session,
                   const Invocation& invocation) {
  const plan::Subject subject{config, inputs.shape, *inputs.folder,
                              plan::make_workload(config, inputs.shape, train::maximal_steps(config, inputs.train),
                                                  train::evaluation_shapes(config, inputs.validation))};
  if (session.placement.cuda == nullptr) return plan::plan_cpu(subject, available_memory_bytes());
  config::GpuSpec gpu = session.phantom ? *invocation.phantom_gpu : spec_of(*session.placement.cuda);
  gpu.memory_bytes = session.placement.cuda->free_bytes();
  plan::Plan plan = plan_for_gpu(subject, gpu, 1);
  plan.target.phantom = session.phantom;
  return plan;
}

void refuse_what_cannot_fit(const plan::Plan& plan, bool force) {
  const bool fits =
      plan.gpu ? plan.gpu->fits : plan.target.capacity_bytes == 0 || plan.dry_run.peak <= plan.target.capacity_bytes;
  if (fits || force) return;
  const ledger::ComponentBytes& bytes = plan.dry_run.at_peak;
  const ledger::Component largest = *std::max_element(ledger::kComponents.begin(), ledger::kComponents.end(),
                                                      [&](auto a, auto b) { return bytes[a] < bytes[b]; });
  throw Error(
      "the run needs " + (plan.gpu ? format_bytes(plan.gpu->reserved_range.lowest) + " reserved, " : std::string()) +
          format_bytes(plan.dry_run.peak) + " live at its peak, and " + plan.target.name + " has " +
          format_bytes(plan.target.capacity_bytes) + "; the largest part is " + std::string(component_name(largest)) +
          " with " + format_bytes(bytes[largest]),
      "try method: lora, gradient_checkpointing: true, bf16, a smaller batch or max_length; --force runs it anyway");
}

}  // namespace fathom::app
