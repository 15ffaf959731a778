// What each optimizer declares of its memory: its states exactly, and what an update takes besides.
#pragma once

#include <vector>

#include "config/run_config.h"
#include "footprint/footprint.h"

namespace fathom::footprint {

// A trained parameter by its sizes.
struct TrainedSizes {
  int64_t rows = 0, columns = 0;  // columns 0: a vector of `rows`
  int64_t bytes = 4;              // of an element
};

// Tensors that exist on the device from before the first step to the end, with what it needs for those that lie in the
// host's memory.
Tensors state_footprint(const config::RunConfig& run, const std::vector<TrainedSizes>& trained, bool cuda);

// Of these, bytes that lie in the host's memory instead (config offload_optimizer).
int64_t host_state_bytes(const config::RunConfig& run, const std::vector<TrainedSizes>& trained);

// So many elements of a gradient have one sum of squares in FP32, where kernels of ours on a GPU take the norm.
inline constexpr int64_t kSquaresPerSum = 65536;

// Moments of an update, gradients apart: on a CPU none, where our kernels take nothing. scales_loss: FP16.
std::vector<Tensors> update_footprint(const config::RunConfig& run, const std::vector<TrainedSizes>& trained, bool cuda,
                                      bool scales_loss);

// Bytes that the update of one parameter reads and writes, its gradient's norm included.
int64_t update_traffic(const config::RunConfig& run, const TrainedSizes& trained);

}  // namespace fathom::footprint
