// Follows lib/model/llama.cpp when it loads and lib/checkpoint when it saves.
#include "plan/host.h"

#include <algorithm>

#include "base/bytes.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

int64_t sum(std::initializer_list<int64_t> parts) {
  int64_t total = 0;
  for (const int64_t part : parts) total = checked_add(total, part, "memory of the host");
  return total;
}

int64_t largest_weight(const model::ModelShape& shape) {
  int64_t elements = 0;
  for (const model::ParameterSpec& spec : model::parameter_specs(shape)) elements = std::max(elements, spec.elements());
  return elements;
}

// What a save takes of the host beside the tensors: those of a CPU are written from where they lie. From a GPU all of
// them are copied at once for a save in the background, else one by one.
int64_t save_buffer(const model::ModelShape& shape, const config::RunConfig& run, const Plan& plan) {
  if (plan.target.device == config::Device::kCpu) return 0;
  const bool full = run.method == config::Method::kFull;
  if (run.save_in_background && run.save_strategy != config::Cadence::kNo) {
    const int64_t size = full ? size_of(train::storage_dtype(run, shape)) : size_of(DType::kF32);
    const int64_t trained = checked_multiply(plan.workload.trained_parameters, size, "the trained parameters");
    const auto states = plan.dry_run.phase(ledger::Phase::kSave).end[ledger::Component::kOptimizerStates];
    return checked_add(trained, states, "the state that is saved");
  }
  if (full)
    return checked_multiply(largest_weight(shape), size_of(train::storage_dtype(run, shape)), "the largest weight");
  const int64_t widest =
      std::max({shape.hidden_size, shape.intermediate_size, shape.num_attention_heads * shape.head_dim});
  return checked_multiply(widest * run.lora_r, 4, "the largest adapter");
}

}  // namespace

HostMemory estimate_host(const model::ModelShape& shape, const config::RunConfig& run, const Plan& plan,
                         int64_t program_bytes, int64_t mapped_bytes) {
  HostMemory host;
  host.program = program_bytes;
  host.mapped_files = mapped_bytes;
  const bool cpu = plan.target.device == config::Device::kCpu;
  const DType stored = train::storage_dtype(run, shape);
  // To a GPU a tensor of another type is converted on the host first; on the CPU it is converted where it goes.
  const int64_t converted = cpu || mapped_bytes == 0 || stored == shape.dtype
                                ? 0
                                : checked_multiply(largest_weight(shape), size_of(stored), "the largest weight");
  const auto tensors = [&](ledger::Phase phase) { return cpu ? plan.dry_run.phase(phase).peak : 0; };
  host.load_peak = sum({program_bytes, tensors(ledger::Phase::kLoad), converted});
  host.train_peak = sum({program_bytes, cpu ? plan.dry_run.peak : 0});
  host.save_peak = sum({program_bytes, tensors(ledger::Phase::kSave), save_buffer(shape, run, plan)});
  return host;
}

}  // namespace fathom::plan
