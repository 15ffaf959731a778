// Exchanges between GPUs by NCCL. Implemented in libfathom_nccl.so, which is loaded where several processes train on
// CUDA (real or phantom), after libtorch_cuda, which brings NCCL.
#pragma once

#include <cstdint>

#include "dist/group.h"

// The only symbol that libfathom_nccl.so exports. control: the same ranks, joined between their CPUs, for all that is
// no tensor; it must outlive the group, which the caller owns. Each rank's GPU is its device 0. Tensors are exchanged
// on a stream of their own, for which the stream that asks waits, and no memory is taken from LibTorch's allocator.
// timeout: milliseconds that an exchange may take. Throws LostOthers.
extern "C" fathom::dist::Group* fathom_nccl_group(fathom::dist::Group* control, int64_t timeout);
