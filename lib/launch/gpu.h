// Which of a machine's GPUs a process takes.
#pragma once

#include <optional>
#include <string>

#include "launch/processes.h"

namespace fathom::launch {

// What CUDA_VISIBLE_DEVICES becomes, so that the process sees its GPU alone, which is the one of its place among the
// machine's processes. visible: the variable's value, null where it is not set. nullopt: it stays, as the process is
// alone on its machine or the launcher has given it one GPU. Throws UsageError where there are fewer than processes.
std::optional<std::string> gpu_of(const Processes& processes, const char* visible);

}  // namespace fathom::launch
