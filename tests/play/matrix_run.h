// One run of the memory matrix, played on the phantom device and for real, and what differs between the two.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "memory/component.h"
#include "play/dry_run.h"
#include "tests/plan/memory_matrix.h"

namespace fathom::play::testing {

plan::Workload workload_of(const plan::testing::MatrixRun& run);

// The dry run, with as many threads as the run's config says.
memory::Memory predict(const plan::testing::MatrixRun& run);

// The run itself: load, every step and evaluation with batches of random tokens, ragged rows and masked targets, and
// the save of a checkpoint, which is removed again. after_stage: called after each of these (may be null).
memory::Memory play(const plan::testing::MatrixRun& run, const train::Placement& placement,
                    const std::function<void()>& after_stage);

// The run on the CPU with as many threads as its config says. Installs the CPU's ledger.
memory::Memory measure(const plan::testing::MatrixRun& run);

// One figure of a run's memory that two accounts may disagree about.
struct Figure {
  std::string name;  // "peak", "activations at the peak", "gradients at the end of backward"
  int64_t bytes = 0;
};
// Peak, each component at the peak and at its maximum, and the same of each phase with its end. Kernel scratch apart.
std::vector<Figure> figures(const memory::Memory& memory);

// The figures that differ, largest difference first: "activations at the peak: dry run 12, measured 13".
std::vector<std::string> differences(const memory::Memory& predicted, const memory::Memory& measured);

}  // namespace fathom::play::testing
