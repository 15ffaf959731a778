// Follows lib/model/decoder.cpp when it loads and lib/checkpoint when it saves.
#include "plan/host.h"

#include <algorithm>

#include "base/bytes.h"
#include "config/shards.h"
#include "footprint/optimizer.h"
#include "memory/memory_pool.h"
#include "plan/estimate/shares.h"
#include "plan/estimate/standing.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

int64_t sum(std::initializer_list<int64_t> parts) {
  int64_t total = 0;
  for (const int64_t part : parts) total = checked_add(total, part, "memory of the host");
  return total;
}

// The most numbers of one parameter that counts.
template <typename Counts>
int64_t largest(const arch::ParameterTable& parameters, const Counts& counts) {
  int64_t elements = 0;
  for (const arch::ParameterRow& row : parameters.rows) {
    if (counts(row)) elements = std::max(elements, row.spec.elements());
  }
  return elements;
}

// Of a share of a tensor, as lib/checkpoint copies it from a GPU.
constexpr int64_t kShareAtOnce = 4 * kMiB;

// What a save takes of the host beside the tensors: those of a CPU are written from where they lie. From a GPU all of
// them are copied at once for a save in the background, else one by one; shares in pieces.
int64_t save_buffer(const arch::Run& run, const Plan& plan) {
  if (plan.target.device == config::Device::kCpu) return 0;
  const int64_t stored = size_of(run.precision.stored), adapter = size_of(DType::kF32);
  if (config::is_shared(run.config)) return kShareAtOnce;
  if (run.config.save_in_background && schedule::saves_checkpoints(run.config)) {
    int64_t trained = 0;
    for (const arch::ParameterRow& row : run.parameters.rows) {
      if (row.trained) trained = checked_add(trained, row.value_bytes(), "the trained parameters");
    }
    const auto states = plan.dry_run.phase(memory::Phase::kSave).end[memory::Component::kOptimizerStates];
    return checked_add(trained, states, "the state that is saved");
  }
  const int64_t largest_trained =
      largest(run.parameters, [](const arch::ParameterRow& row) { return row.trained && row.of_base(); });
  const int64_t weight = checked_multiply(largest_trained, stored, "the largest weight");
  if (run.config.method == config::Method::kFull) return weight;
  const int64_t largest_adapter = largest(run.parameters, [](const arch::ParameterRow& row) { return !row.of_base(); });
  return std::max(weight, checked_multiply(largest_adapter, adapter, "the largest adapter"));
}

// Beside tensors and what the allocator keeps of their memory: the kernels that are kept (app/loader.cpp), those that
// planning asks, code that is paged in, stacks, everything else. Runs of 0.4 to 80 million parameters in all formats,
// of up to 400 steps of as many lengths, took up to 135 MiB.
constexpr int64_t kBesideTensors = 192 * kMiB;

}  // namespace

int64_t offloaded_bytes(const arch::Run& run) {
  if (!offloads(run.config)) return 0;
  return sum({footprint::host_state_bytes(run.config, trained_sizes(run.parameters)), offloaded_layers(run).bytes});
}

int64_t host_traffic(const arch::Run& run) {
  if (!offloads(run.config)) return 0;  // asked of every combination that a search tries
  const int64_t layers = offloaded_layers(run).bytes;
  return sum({footprint::host_state_bytes(run.config, trained_sizes(run.parameters)),
              checked_multiply(2 * run.config.gradient_accumulation_steps, layers, "weights on their way")});
}

int64_t most_resident_growth(const Plan& plan) {
  const int64_t tensors = std::max(plan.dry_run.peak, plan.dry_run.peak_with_scratch);
  return sum({static_cast<int64_t>(memory::most_kept_and_used(static_cast<size_t>(tensors))), kBesideTensors});
}

int64_t most_tensors_within(int64_t growth) {
  const auto always = static_cast<int64_t>(memory::most_kept_and_used(0)) + kBesideTensors;
  return std::max<int64_t>(0, growth - always) / 9 * 8;
}

HostMemory estimate_host(const arch::Run& run, const Plan& plan, int64_t program_bytes, int64_t mapped_bytes) {
  HostMemory host;
  host.program = program_bytes;
  host.mapped_files = mapped_bytes;
  const bool cpu = plan.target.device == config::Device::kCpu;
  const DType stored = run.precision.stored;
  // To a GPU a tensor of another type is converted on the host first; on the CPU it is converted where it goes.
  // Codes are made of the file's numbers as they are, a part at a time, and widened on the GPU.
  const auto is_converted = [](const arch::ParameterRow& row) { return row.of_base() && !row.codes; };
  const int64_t converted =
      cpu || mapped_bytes == 0 || stored == run.architecture.dtype
          ? 0
          : checked_multiply(largest(run.parameters, is_converted), size_of(stored), "the largest weight");
  const auto tensors = [&](memory::Phase phase) { return cpu ? plan.dry_run.phase(phase).peak : 0; };
  host.offloaded = plan.offloaded;
  host.load_peak = sum({program_bytes, tensors(memory::Phase::kLoad), converted, plan.offloaded});
  host.train_peak = sum({program_bytes, cpu ? plan.dry_run.peak : 0, plan.offloaded});
  host.save_peak = sum({program_bytes, tensors(memory::Phase::kSave), save_buffer(run, plan), plan.offloaded});
  return host;
}

}  // namespace fathom::plan
