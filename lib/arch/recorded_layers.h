// Which batches have their layers recorded as CUDA graphs (config cuda_graphs).
#pragma once

#include <cstdint>

namespace fathom::arch {

// Shapes of batches, as rows and length, that are recorded: the first ones that come for the second time. The driver
// takes memory for each recording, so that others are computed as they come.
inline constexpr int64_t kMostRecorded = 16;

}  // namespace fathom::arch
