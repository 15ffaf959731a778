// What the CPU's kernels take and give back within one call, played on the phantom device: an upper bound for this
// machine's instruction set and the number of threads that LibTorch uses.
//
// Measured with 1 and 2 threads on x86-64 with AVX512_BF16 (AMD EPYC, Zen 4; LibTorch 2.11), and with AMX besides
// (Intel Xeon), and with AVX512_FP16 without AMX (an Intel Xeon that hides it); on the first also with oneDNN held to
// AVX2 and AVX512, with LibTorch's kernels for AVX2 and for no extension, and with the branch of flash attention that
// AMX turns on. No other processor was measured. With one thread the figures are the kernels' own; with more, the
// buffers of all threads count as if they were taken at once, which is how they overlap in the worst case.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

namespace fathom::phantom {

// Whether this processor's instruction set is one that the figures were measured on.
bool kernel_scratch_was_measured_here();

// Whether oneDNN multiplies BF16 in AMX's tiles, if it is let.
bool multiplies_with_amx();

// Bytes that the operator's kernel takes besides its result. Known are matrix products in 16 bits and numbers that
// become tensors; others of the decoder's take none. arguments: as on the stack, phantom tensors and numbers wrapped as
// CPU tensors.
int64_t kernel_scratch_bytes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Of a copy within the device.
int64_t copy_scratch_bytes(const at::Tensor& source, const at::Tensor& destination);

// Of flash attention (ATen/native/cpu/FlashAttentionKernel.cpp of LibTorch 2.11). query, key: [B, H, S, E]. With AMX
// for their type, the forward of at least 64 queries and keys is taken to copy keys and values into another order, as
// it does unless the threads are many and the batch is small.
int64_t attention_scratch_bytes(const at::Tensor& query_BHSE, const at::Tensor& key_BHSE);
int64_t attention_backward_scratch_bytes(const at::Tensor& gradient_BHSE, const at::Tensor& query_BHSE,
                                         const at::Tensor& key_BHSE);

// Takes a block of the phantom device and gives it back: inside the call of an operator that is open on this thread,
// the ledger counts it as kernel scratch.
void take_and_give_back(int64_t bytes);

// What is taken for x [m, k] times y [k, n], or a batch of them, both of a type of 16 bits with these strides, with as
// many threads as LibTorch uses: the kernel is asked, oneDNN's or fathom's own, through the operator. 0 where LibTorch
// multiplies by itself. Throws Error where the process lacks the address space to ask. Fewer tokens or matrices may
// take more: it is the most of this product and of those in its place in smaller batches.
struct MatrixProduct {
  int64_t batch = 0;  // 0: two dimensions
  int64_t m = 0, k = 0, n = 0;
  bool x_transposed = false, y_transposed = false;  // in memory
  bool adds = false;                                // to another matrix: addmm, not mm
  bool own = false;                                 // fathom's operator (ops/linear/matrix_product.h), not LibTorch's
  at::ScalarType type = at::kBFloat16;
  auto operator<=>(const MatrixProduct&) const = default;  // NOLINT(modernize-use-nullptr): of what the compiler writes
};
int64_t matrix_product_scratch_bytes(const MatrixProduct& product);

}  // namespace fathom::phantom
