// Entries of CUDA_VISIBLE_DEVICES: numbers or names of GPUs, separated by commas.
#include "launch/gpu.h"

#include <iterator>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace fathom::launch {

std::optional<std::string> gpu_of(const Processes& processes, const char* visible) {
  if (processes.local_size == 1) return std::nullopt;
  const auto place = static_cast<size_t>(processes.local_rank);
  if (visible == nullptr) return std::to_string(place);
  std::vector<std::string> gpus;
  std::istringstream entries(visible);
  for (std::string entry; std::getline(entries, entry, ',');) gpus.push_back(entry);
  if (gpus.size() < 2) return std::nullopt;
  if (std::ssize(gpus) >= processes.local_size) return gpus[place];
  throw UsageError("CUDA_VISIBLE_DEVICES has " + std::to_string(gpus.size()) + " GPUs, and " + processes.launcher +
                       " has started " + std::to_string(processes.local_size) + " processes on this machine",
                   "start one process for each GPU, or set device: cpu");
}

}  // namespace fathom::launch
