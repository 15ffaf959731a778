// The comparison of a plan with its target, the same for commands and reports.
#include "plan/bound.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "base/bytes.h"

namespace fathom::plan {

int64_t needed_bytes(const Plan& plan) {
  if (plan.gpu) return plan.gpu->reserved_range.lowest;
  return std::max(plan.dry_run.peak, plan.dry_run.peak_with_scratch);
}

int64_t missing_bytes(const Plan& plan) {
  if (plan.gpu) return plan.gpu->fits ? 0 : plan.gpu->missing_bytes;
  if (plan.target.capacity_bytes == 0) return 0;
  return std::max<int64_t>(0, needed_bytes(plan) - plan.target.capacity_bytes);
}

std::string describe_capacity(const Target& target) {
  const std::string bytes = format_bytes(target.capacity_bytes);
  const bool names_bytes = target.capacity_bytes < 4096;
  if (target.within_budget) return "memory_budget is " + bytes + (names_bytes ? " (50MiB and 50GiB have units)" : "");
  return target.device == config::Device::kCuda ? target.name + " has " + bytes : "this machine has " + bytes + " free";
}

std::string describe_misfit(const Plan& plan, const arch::Run& run, const ThroughputOf& throughput) {
  const memory::ComponentBytes& bytes = plan.dry_run.at_peak;
  const memory::Component largest = *std::max_element(memory::kComponents.begin(), memory::kComponents.end(),
                                                      [&](auto a, auto b) { return bytes[a] < bytes[b]; });
  std::array<char, 16> share{};
  std::snprintf(
      share.data(), share.size(), "%.0f %%",
      100.0 * static_cast<double>(bytes[largest]) / static_cast<double>(std::max<int64_t>(1, plan.dry_run.peak)));
  const int64_t missing = missing_bytes(plan);
  std::string text = "the run does not fit: it needs " + format_bytes(plan.target.capacity_bytes + missing) +
                     (plan.gpu ? " reserved" : "") + ", " + describe_capacity(plan.target) + ", and " +
                     format_bytes(missing) + " are missing (" + format_count(missing) + " bytes)\n" + "Of " +
                     format_bytes(plan.dry_run.peak) + " live at its peak, the largest part is " +
                     std::string(component_name(largest)) + ": " + format_bytes(bytes[largest]) + " (" + share.data() +
                     ").";
  const std::string help = describe_remedies(remedies(run, plan.target, plan.workload, throughput), missing);
  if (!help.empty()) text += "\nWhat would help most, each alone, by formula:\n" + help;
  if (text.back() == '\n') text.pop_back();
  return text;
}

Target gpu_target(const config::GpuSpec& gpu, int64_t capacity_bytes, int64_t memory_budget) {
  Target target;
  target.device = config::Device::kCuda;
  target.name = gpu.name;
  target.compute_capability = gpu.compute_capability;
  target.multiprocessors = gpu.multiprocessors;
  target.capacity_bytes = capacity_bytes;
  target.gpus_per_node = static_cast<int64_t>(gpu.gpus_per_node);
  bound_by_budget(target, memory_budget);
  return target;
}

void bound_by_budget(Target& target, int64_t memory_budget) {
  if (memory_budget == 0 || (target.capacity_bytes != 0 && target.capacity_bytes <= memory_budget)) return;
  target.capacity_bytes = memory_budget;
  target.within_budget = true;
}

}  // namespace fathom::plan
