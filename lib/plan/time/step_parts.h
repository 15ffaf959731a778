// The parts of a training step that are counted, expected and measured one by one.
#pragma once

#include <array>

#include "memory/component.h"

namespace fathom::plan {

// A value for each of the phases that a step goes through, of all its micro-batches.
template <typename T>
struct StepParts {
  T forward = {}, backward = {}, update = {};

  static constexpr std::array<memory::Phase, 3> kPhases = {memory::Phase::kForward, memory::Phase::kBackward,
                                                           memory::Phase::kOptimizerStep};
  // What belongs to no phase of a step counts as of its end.
  T& of(memory::Phase phase) {
    return phase == memory::Phase::kForward ? forward : phase == memory::Phase::kBackward ? backward : update;
  }
  const T& of(memory::Phase phase) const { return const_cast<StepParts*>(this)->of(phase); }
  T whole() const { return forward + backward + update; }
  bool operator==(const StepParts&) const = default;
};

template <typename T>
StepParts<T> operator+(const StepParts<T>& a, const StepParts<T>& b) {
  return {a.forward + b.forward, a.backward + b.backward, a.update + b.update};
}
template <typename T>
StepParts<T> operator-(const StepParts<T>& a, const StepParts<T>& b) {
  return {a.forward - b.forward, a.backward - b.backward, a.update - b.update};
}

}  // namespace fathom::plan
