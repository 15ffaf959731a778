// The variables of the environment that LibTorch 2.11 reads, and a few of NCCL's, and what each does to the memory that
// is planned.
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace fathom::app {

enum class OnMemory {
  kObeyed,   // the plan's LibTorch reads it as the run's does: the same code, in a child with the same environment
  kRefused,  // it takes memory that is not counted, or by the clock, or where the plan goes by what is known without it
  kNone,     // it changes nothing that a run allocates
};

struct TorchVariables {
  OnMemory effect;
  std::string_view why;  // of those that are refused: ends the sentence "VARIABLE is set: ..."
  std::vector<std::string_view> names;
};

// Each has one row. A test holds it against the names in LibTorch's files.
std::span<const TorchVariables> torch_variables();

// Throws UsageError for a variable that is set and whose effect no plan for a GPU can have; those of NCCL count for
// several processes.
void refuse_torch_variables(bool several_processes);

}  // namespace fathom::app
