// A few training steps on a phantom GPU, with the trainer itself.
#pragma once

#include "base/json_value.h"
#include "ledger/cuda.h"

namespace fathom::phantom {

// fathom_cuda_device() of libfathom_cuda.so, which is loaded after this library because it needs this one's ledger.
ledger::CudaDevice& cuda_device();

// request: "shape" ("small" or "70B"), "steps", "rows", "length", "dtype" ("float32", "bfloat16"), "bf16" (autocast),
// "gradient_checkpointing", "lora", "compare" (ledger against allocator at every event; costs time).
// Answer:
//   "events", "differences": allocator events, and those at which ledger and requested_bytes differed (with "compare")
//   "ends": per step [live, requested] bytes after it
//   "last_steps_equal": the last two steps asked for the same sizes in the same order (with "compare")
//   "requests": how many requests the last step made (with "compare")
//   "peak_requested", "peak_allocated", "peak_reserved", "peak_live"
//   "kernels": bytes of that component at their maximum
//   "left": bytes in ledger and allocator once the trainer is gone and workspaces are cleared
//   "seconds", "resident_growth_bytes": of the trainer's life, without the process's start
Json play_training(const Json& request);

}  // namespace fathom::phantom
