// Tells an allocator inside which kernel call of the CPU it is asked, so that kernel scratch can be recognised.
#pragma once

#include <cstdint>

namespace fathom::ledger {

// The outermost open call, on one thread, of an operator that has a kernel of its own for the CPU. Composite operators
// do not count: what they allocate between the kernels that they call is visible to autograd and to the phantom.
struct KernelCall {
  const void* thread = nullptr;  // which thread; null outside of such a call
  uint64_t number = 0;           // counts the calls of that thread
  bool worker = false;           // asked on a worker thread of a parallel region
  const char* op = nullptr;      // the operator's name ("aten::mm"), which lives as long as the process
  bool operator==(const KernelCall&) const = default;
};

// Watches operator calls for the rest of the process (one RecordFunction callback). Later calls do nothing.
void watch_kernel_calls();
// For the calling thread; always empty before watch_kernel_calls().
KernelCall current_kernel_call();
// Whether "aten::mm" or "aten::add.Tensor" counts as a kernel call here.
bool is_kernel_operator(const char* name, const char* overload);

}  // namespace fathom::ledger
