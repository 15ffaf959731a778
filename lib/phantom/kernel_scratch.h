// What the CPU's kernels take and give back within one call, played on the phantom device: an upper bound for this
// machine's instruction set and the number of threads that LibTorch uses.
//
// Measured with 1 and 2 threads. With one thread the figures are the kernels' own; with more, the buffers of all
// threads count as if they were taken at once, which is how they overlap in the worst case.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace fathom::phantom {

// Bytes that the operator's kernel takes besides its result. Known are matrix products in BF16 and numbers that become
// tensors; others of the decoder's take none. arguments: as on the stack, phantom tensors and numbers wrapped as CPU
// tensors.
int64_t kernel_scratch_bytes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Of flash attention (ATen/native/cpu/FlashAttentionKernel.cpp of LibTorch 2.11). query, key: [B, H, S, E].
int64_t attention_scratch_bytes(const at::Tensor& query_BHSE, const at::Tensor& key_BHSE);
int64_t attention_backward_scratch_bytes(const at::Tensor& gradient_BHSE, const at::Tensor& query_BHSE,
                                         const at::Tensor& key_BHSE);

// Takes a block of the phantom device and gives it back: inside the call of an operator that is open on this thread,
// the ledger counts it as kernel scratch.
void take_and_give_back(int64_t bytes);

// What oneDNN takes for x [m, k] times y [k, n], or a batch of them, both BF16 with these strides, with as many threads
// as LibTorch uses: oneDNN itself is asked. 0 where LibTorch multiplies without it.
struct MatrixProduct {
  int64_t batch = 0;  // 0: two dimensions
  int64_t m = 0, k = 0, n = 0;
  bool x_transposed = false, y_transposed = false;  // in memory
  auto operator<=>(const MatrixProduct&) const = default;
};
int64_t matrix_product_scratch_bytes(const MatrixProduct& product);

}  // namespace fathom::phantom
