// cuDNN's attention on a phantom GPU.
#pragma once

namespace fathom::ledger {

// Where a phantom GPU stands in for a real one, LibTorch's operators for cuDNN's attention ask for the memory that they
// take on compute capability 9.0, and compute nothing, from now on; on a real GPU nothing changes. What a kernel takes
// for its work is footprint::CudnnWorkspace.
void play_cudnn_attention();

}  // namespace fathom::ledger
