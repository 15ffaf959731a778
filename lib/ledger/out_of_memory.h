// Which of LibTorch's errors mean that a device has no memory left, and what they say.
#pragma once

#include <c10/util/Exception.h>

#include <string>

namespace fathom::ledger {

// c10::OutOfMemoryError; or what the CUDA allocator throws in its place where NVML does not know the GPU, as in some
// virtual machines: LibTorch asks NVML who else uses the memory and takes its refusal for a defect. No observer hears
// of the allocation then: Ledger::refusal knows nothing of it.
bool is_out_of_memory(const c10::Error& error);

// Of such an error: what was asked for and how much there is, as far as LibTorch says it; without its advice.
std::string describe_out_of_memory(const c10::Error& error);

}  // namespace fathom::ledger
