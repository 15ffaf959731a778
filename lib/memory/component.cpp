// The names of components and phases, and how the memory of two stretches of one run becomes one.
#include "memory/component.h"

#include <algorithm>

namespace fathom::memory {

std::string_view component_name(Component component) {
  switch (component) {
    case Component::kWeights:
      return "weights";
    case Component::kOptimizerStates:
      return "optimizer_states";
    case Component::kGradients:
      return "gradients";
    case Component::kFunctionality:
      return "functionality";
    case Component::kActivations:
      return "activations";
    case Component::kTemporaryBuffers:
      return "temporary_buffers";
    case Component::kKernels:
      return "kernels";
  }
  return "";
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kLoad:
      return "load";
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizerStep:
      return "optimizer_step";
    case Phase::kEvaluation:
      return "evaluation";
    case Phase::kSave:
      return "save";
  }
  return "";
}

int64_t ComponentBytes::total() const {
  int64_t sum = 0;
  for (int64_t b : bytes) sum += b;
  return sum;
}

void Memory::merge(const Memory& later) {
  if (later.peak > peak) {
    peak = later.peak;
    at_peak = later.at_peak;
  }
  for (Component c : kComponents) maximum[c] = std::max(maximum[c], later.maximum[c]);
  for (int i = 0; i < kPhaseCount; i++) {
    const PhaseMemory& other = later.phases[i];
    if (!other.seen) continue;
    const bool equal = other.peak == phases[i].peak && phases[i].seen;
    const bool larger = equal ? other.end.total() > phases[i].end.total() : other.peak > phases[i].peak;
    if (larger || !phases[i].seen) phases[i] = other;
  }
  kernel_scratch = std::max(kernel_scratch, later.kernel_scratch);
  peak_with_scratch = std::max(peak_with_scratch, later.peak_with_scratch);
}

}  // namespace fathom::memory
