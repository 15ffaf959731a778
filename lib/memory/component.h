// The vocabulary of memory: components, phases, and bytes per component.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace fathom::memory {

// In the order of reports. Kernel scratch, which an operator takes and gives back inside one call, belongs to none: it
// is shown beside the seven (Memory::kernel_scratch) and is never part of `live`.
enum class Component {
  kWeights,           // storages of parameters and buffers: trained, frozen, adapters
  kOptimizerStates,   // what the optimizer keeps between steps
  kGradients,         // storages that were ever a leaf's .grad, and the head's gradient on its way there
  kFunctionality,     // what a feature registers: the ring of batches, autocast's copies of parameters, a cache of keys
  kActivations,       // of a forward pass or a recomputation, alive when the backward pass of that segment starts
  kTemporaryBuffers,  // everything else
  kKernels,           // workspaces that libraries take from the allocator (cuBLAS)
};
inline constexpr int kComponentCount = 7;
inline constexpr std::array<Component, kComponentCount> kComponents = {
    Component::kWeights,     Component::kOptimizerStates,  Component::kGradients, Component::kFunctionality,
    Component::kActivations, Component::kTemporaryBuffers, Component::kKernels};
std::string_view component_name(Component component);  // "weights", "optimizer_states", …

enum class Phase { kLoad, kForward, kBackward, kOptimizerStep, kEvaluation, kSave };
inline constexpr int kPhaseCount = 6;
inline constexpr std::array<Phase, kPhaseCount> kPhases = {Phase::kLoad,          Phase::kForward,    Phase::kBackward,
                                                           Phase::kOptimizerStep, Phase::kEvaluation, Phase::kSave};
std::string_view phase_name(Phase phase);  // "load", "forward", "backward", "optimizer_step", …

// Bytes of each component at one instant.
struct ComponentBytes {
  std::array<int64_t, kComponentCount> bytes{};
  int64_t& operator[](Component c) { return bytes[static_cast<int>(c)]; }
  int64_t operator[](Component c) const { return bytes[static_cast<int>(c)]; }
  int64_t total() const;
  bool operator==(const ComponentBytes&) const = default;
};

// What the ledger knows about a run so far; the same value whether it was measured or dry-run.
struct Memory {
  int64_t peak = 0;        // the largest live bytes
  ComponentBytes at_peak;  // components at the first instant of `peak`
  ComponentBytes maximum;  // each component's own maximum
  struct PhaseMemory {
    bool seen = false;
    int64_t peak = 0;  // the largest live bytes in any occurrence of the phase
    ComponentBytes at_peak;
    ComponentBytes end;  // at the end of the occurrence that reached `peak`; of several, of the one that left most
    bool operator==(const PhaseMemory&) const = default;
  };
  std::array<PhaseMemory, kPhaseCount> phases{};
  int64_t kernel_scratch = 0;     // the largest sum of kernel scratch at one instant (CPU)
  int64_t peak_with_scratch = 0;  // the largest sum of live bytes and kernel scratch at one instant
  const PhaseMemory& phase(Phase p) const { return phases[static_cast<int>(p)]; }
  // Folds another stretch of the same run into this one: maxima of maxima, the first instant wins ties.
  void merge(const Memory& later);
  bool operator==(const Memory&) const = default;
};

}  // namespace fathom::memory
