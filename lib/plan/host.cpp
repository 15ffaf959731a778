// Follows lib/model/llama.cpp when it loads and lib/checkpoint when it saves.
#include "plan/host.h"

#include <algorithm>

#include "base/bytes.h"
#include "ledger/memory_pool.h"
#include "model/quantized_base.h"
#include "model/saved_parameters.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

int64_t sum(std::initializer_list<int64_t> parts) {
  int64_t total = 0;
  for (const int64_t part : parts) total = checked_add(total, part, "memory of the host");
  return total;
}

// Quantized matrices come from the file as they are, a part at a time, and are widened on the GPU.
int64_t largest_converted_weight(const model::ModelShape& shape, const config::RunConfig& run) {
  const bool quantizes = model::base_scheme(shape, run).has_value();
  const std::set<std::string> trained = model::trained_base(shape, run);
  int64_t elements = 0;
  for (const model::ParameterSpec& spec : model::parameter_specs(shape)) {
    if (quantizes && model::is_quantizable(spec, trained.contains(spec.name))) continue;
    elements = std::max(elements, spec.elements());
  }
  return elements;
}

int64_t largest_trained_weight(const model::ModelShape& shape, const config::RunConfig& run) {
  const std::set<std::string> trained = model::trained_base(shape, run);
  int64_t elements = 0;
  for (const model::ParameterSpec& spec : model::parameter_specs(shape)) {
    if (trained.contains(spec.name)) elements = std::max(elements, spec.elements());
  }
  return elements;
}

// What a save takes of the host beside the tensors: those of a CPU are written from where they lie. From a GPU all of
// them are copied at once for a save in the background, else one by one.
int64_t save_buffer(const model::ModelShape& shape, const config::RunConfig& run, const Plan& plan) {
  if (plan.target.device == config::Device::kCpu) return 0;
  const int64_t stored = size_of(train::storage_dtype(run, shape)), adapter = size_of(DType::kF32);
  if (run.save_in_background && train::saves_checkpoints(run)) {
    const int64_t base = model::trained_base_count(shape, run), adapters = plan.workload.trained_parameters - base;
    const int64_t trained = sum({checked_multiply(base, stored, "the trained parameters"),
                                 checked_multiply(adapters, adapter, "the adapters")});
    const auto states = plan.dry_run.phase(ledger::Phase::kSave).end[ledger::Component::kOptimizerStates];
    return checked_add(trained, states, "the state that is saved");
  }
  const int64_t weight = checked_multiply(largest_trained_weight(shape, run), stored, "the largest weight");
  if (run.method == config::Method::kFull) return weight;
  const int64_t widest =
      std::max({shape.hidden_size, shape.intermediate_size, shape.num_attention_heads * shape.head_dim});
  return std::max(weight, checked_multiply(widest * run.lora_r, adapter, "the largest adapter"));
}

// Beside tensors and what the allocator keeps of their memory: the kernels that are kept (app/loader.cpp), those that
// planning asks, code that is paged in, stacks, everything else. Runs of 0.4 to 80 million parameters in all formats,
// of up to 400 steps of as many lengths, took up to 135 MiB.
constexpr int64_t kBesideTensors = 192 * kMiB;

}  // namespace

int64_t most_resident_growth(const Plan& plan) {
  const int64_t tensors = std::max(plan.dry_run.peak, plan.dry_run.peak_with_scratch);
  return sum({static_cast<int64_t>(ledger::most_kept_and_used(static_cast<size_t>(tensors))), kBesideTensors});
}

int64_t most_tensors_within(int64_t growth) {
  const auto always = static_cast<int64_t>(ledger::most_kept_and_used(0)) + kBesideTensors;
  return std::max<int64_t>(0, growth - always) / 9 * 8;
}

HostMemory estimate_host(const model::ModelShape& shape, const config::RunConfig& run, const Plan& plan,
                         int64_t program_bytes, int64_t mapped_bytes) {
  HostMemory host;
  host.program = program_bytes;
  host.mapped_files = mapped_bytes;
  const bool cpu = plan.target.device == config::Device::kCpu;
  const DType stored = train::storage_dtype(run, shape);
  // To a GPU a tensor of another type is converted on the host first; on the CPU it is converted where it goes.
  const int64_t converted =
      cpu || mapped_bytes == 0 || stored == shape.dtype
          ? 0
          : checked_multiply(largest_converted_weight(shape, run), size_of(stored), "the largest weight");
  const auto tensors = [&](ledger::Phase phase) { return cpu ? plan.dry_run.phase(phase).peak : 0; };
  host.load_peak = sum({program_bytes, tensors(ledger::Phase::kLoad), converted});
  host.train_peak = sum({program_bytes, cpu ? plan.dry_run.peak : 0});
  host.save_peak = sum({program_bytes, tensors(ledger::Phase::kSave), save_buffer(shape, run, plan)});
  return host;
}

}  // namespace fathom::plan
