// One run of the memory matrix, played on the phantom device and for real on the CPU, and what differs between the two.
#pragma once

#include <string>
#include <vector>

#include "ledger/component.h"
#include "plan/dry_run.h"
#include "tests/plan/memory_matrix.h"

namespace fathom::plan::testing {

Workload workload_of(const MatrixRun& run);

// The dry run, with as many threads as the run's config says.
ledger::Memory predict(const MatrixRun& run);

// The run itself with as many threads: load, every step and evaluation with batches of random tokens, ragged rows and
// masked targets, and the save of a checkpoint, which is removed again. Installs the CPU's ledger.
ledger::Memory measure(const MatrixRun& run);

// One figure of a run's memory that two accounts may disagree about.
struct Figure {
  std::string name;  // "peak", "activations at the peak", "gradients at the end of backward"
  int64_t bytes = 0;
};
// Peak, each component at the peak and at its maximum, and the same of each phase with its end. Kernel scratch apart.
std::vector<Figure> figures(const ledger::Memory& memory);

// The figures that differ, largest difference first: "activations at the peak: dry run 12, measured 13".
std::vector<std::string> differences(const ledger::Memory& predicted, const ledger::Memory& measured);

}  // namespace fathom::plan::testing
