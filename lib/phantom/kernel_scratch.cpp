// Scratch memory of the CPU's kernels, operator by operator.
#include "phantom/kernel_scratch.h"

#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <unordered_map>

#include "base/bytes.h"
#include "phantom/backend.h"

namespace fathom::phantom {
namespace {

constexpr int64_t kAddedScaleBytes = 4;  // of what a product is added to, as oneDNN takes it
constexpr int64_t kNumberBytes = 8;      // a number wrapped as a tensor: double, int64 or bool, all kept in 8

// LibTorch's threads are a property of each thread; autograd's own may have started before the number was set.
int64_t threads() {
  at::init_num_threads();
  return at::get_num_threads();
}

// The place of the first of the two matrices among the arguments. LibTorch's composite forms call those with `out`.
const std::unordered_map<c10::OperatorName, size_t>& matrix_products() {
  static const auto* products = new std::unordered_map<c10::OperatorName, size_t>{
      {{"aten::mm", "out"}, 0},      {{"aten::bmm", "out"}, 0},   {{"aten::addmm", "out"}, 1},
      {{"aten::baddbmm", "out"}, 1}, {{"fathom::mm", ""}, 0},     {{"fathom::mm", "out"}, 0},
      {{"fathom::addmm", ""}, 1},    {{"fathom::addmm_", ""}, 1}, {{"fathom::bmm", ""}, 0}};
  return *products;
}

bool is_transposed(const at::Tensor& matrix) {
  return matrix.stride(-1) != 1 && matrix.transpose(-2, -1).is_contiguous();
}

// LibTorch hands oneDNN a copy of what lies with gaps in memory, like a document's heads.
int64_t copy_bytes(const at::Tensor& matrix) {
  return matrix.is_contiguous() || is_transposed(matrix) ? 0 : static_cast<int64_t>(matrix.nbytes());
}

int64_t product_bytes(const at::Tensor& x, const at::Tensor& y, bool adds, bool own) {
  if (!at::isReducedFloatingType(x.scalar_type()) || x.numel() == 0 || y.numel() == 0) return 0;
  threads();
  const int64_t bytes = matrix_product_scratch_bytes({x.dim() == 3 ? x.size(0) : 0, x.size(-2), x.size(-1), y.size(-1),
                                                      is_transposed(x), is_transposed(y), adds, own, x.scalar_type()});
  return bytes == 0 ? 0 : bytes + copy_bytes(x) + copy_bytes(y);
}

// The number's own tensor, and its cast to the type of the others.
int64_t number_bytes(c10::ArrayRef<c10::IValue> arguments) {
  int64_t bytes = 0, itemsize = 0;
  for (const c10::IValue& argument : arguments) {
    if (!argument.isTensor() || !argument.toTensor().defined()) continue;
    const at::Tensor& tensor = argument.toTensor();
    if (tensor.is_cpu() && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      bytes += kNumberBytes;
    } else {
      itemsize = std::max<int64_t>(itemsize, static_cast<int64_t>(tensor.itemsize()));
    }
  }
  return bytes == 0 ? 0 : bytes + itemsize;
}

// Of the square that a transposed matrix is copied through (copy_transpose_valid and copy_same_type_transpose_ in
// ATen/native/Copy.cpp); none for small ones.
int64_t transposing_bytes(const at::Tensor& matrix) {
  constexpr int64_t kSide = 60, kSideOfBytes = 120;
  const bool transposed = matrix.dim() == 2 && matrix.stride(0) == 1 && matrix.stride(1) == matrix.size(0);
  if (!transposed || matrix.numel() < kSide * kSide) return 0;
  const int64_t side = matrix.scalar_type() == at::kByte ? kSideOfBytes : kSide;
  return side * side * static_cast<int64_t>(matrix.itemsize());
}

// Of what the gradient of an embedding reads side by side.
int64_t copied_bytes(const at::Tensor& read) {
  return read.is_contiguous() ? 0 : static_cast<int64_t>(read.nbytes()) + transposing_bytes(read);
}

// T5's distances have a table that is read by columns; GPT-2's positions are the same in every row.
int64_t embedding_gradient_bytes(const at::Tensor& gradient, const at::Tensor& ids) {
  return copied_bytes(gradient) + copied_bytes(ids);
}

// Rows of queries and of keys that flash attention works on at once.
struct Blocks {
  int64_t queries, keys;
};
Blocks attention_blocks(int64_t queries, int64_t keys) {
  const int64_t block = queries >= 768 ? 256 : queries >= 192 ? 64 : 32;
  return {std::min(block, queries), std::min<int64_t>(512, keys)};
}

int64_t made_even(int64_t count) { return count + count % 2; }

// Keys and values in the order of AMX, which pairs rows. Fewer queries or keys than kLeastRows are left as they are.
int64_t attention_packing_bytes(const at::Tensor& query_BHSE, const at::Tensor& key_BHSE) {
  constexpr int64_t kLeastRows = 64;
  const int64_t length = key_BHSE.size(2), head_size = key_BHSE.size(3);
  if (!at::native::cpublas::could_pack(query_BHSE.scalar_type())) return 0;
  if (query_BHSE.size(2) < kLeastRows || length < kLeastRows) return 0;
  const auto [queries, keys] = attention_blocks(query_BHSE.size(2), length);
  const int64_t last_keys = (length - 1) % keys + 1;
  const int64_t padded_length = (length - 1) / keys * made_even(keys) + made_even(last_keys);
  const int64_t copies =
      key_BHSE.size(0) * key_BHSE.size(1) * (length * made_even(head_size) + padded_length * head_size);
  // Of each thread: a transposed block of keys, and what makes the queries' heads and the scores even.
  const int64_t each =
      keys * head_size + queries * (head_size % 2 == 0 ? 0 : made_even(head_size)) + queries * (keys % 2);
  return 2 * (copies + threads() * each);
}

}  // namespace

bool multiplies_with_amx() { return at::native::cpublas::could_pack(at::kBFloat16); }

bool kernel_scratch_was_measured_here() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

int64_t kernel_scratch_bytes(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  static const c10::OperatorName kEmbeddingBackward("aten::embedding_dense_backward", "");
  if (op.operator_name() == kEmbeddingBackward) {
    return embedding_gradient_bytes(arguments[0].toTensor(), arguments[1].toTensor());
  }
  const auto found = matrix_products().find(op.operator_name());
  if (found == matrix_products().end()) return number_bytes(arguments);
  const bool adds = found->second > 0;
  const int64_t bytes = product_bytes(arguments[found->second].toTensor(), arguments[found->second + 1].toTensor(),
                                      adds, found->first.name.starts_with("fathom::"));
  return bytes > 0 && adds ? bytes + kAddedScaleBytes : bytes;
}

int64_t copy_scratch_bytes(const at::Tensor& source, const at::Tensor& destination) {
  const bool alike = destination.is_contiguous() && destination.scalar_type() == source.scalar_type() &&
                     destination.sizes().equals(source.sizes());
  return alike ? transposing_bytes(source) : 0;
}

int64_t attention_scratch_bytes(const at::Tensor& query_BHSE, const at::Tensor& key_BHSE) {
  const auto [queries, keys] = attention_blocks(query_BHSE.size(2), key_BHSE.size(2));
  // Of each thread: scores, their maxima and sums, and the output, in FP32; the scores once more in 16 bits.
  const int64_t full = 4 * queries * (keys + 2 + query_BHSE.size(3));
  const int64_t reduced = query_BHSE.scalar_type() == at::kFloat ? 0 : 2 * queries * keys;
  return threads() * (full + reduced) + attention_packing_bytes(query_BHSE, key_BHSE);
}

int64_t attention_backward_scratch_bytes(const at::Tensor& gradient_BHSE, const at::Tensor& query_BHSE,
                                         const at::Tensor& key_BHSE) {
  const auto [queries, keys] = attention_blocks(query_BHSE.size(2), key_BHSE.size(2));
  const int64_t count = threads(), head_size = query_BHSE.size(3);
  // A gradient in another layout than [B, S, H, E] is copied.
  const int64_t copy = gradient_BHSE.transpose(1, 2).is_contiguous() ? 0 : static_cast<int64_t>(gradient_BHSE.nbytes());
  // Of each thread: scores and their gradients, one sum a row.
  int64_t each = queries * keys * 2 * 4 + queries * 4;
  if (query_BHSE.scalar_type() != at::kFloat) {
    // Both again in 16 bits, and oneDNN's scratch for one of the products within a block. The last block of queries may
    // be smaller.
    // Fewer keys may have larger blocks in oneDNN's product: those of 256 bound the shorter sequences of a run.
    int64_t product = 0;
    const int64_t rest = query_BHSE.size(2) % queries;
    const auto ask = [&](int64_t m, int64_t k, int64_t n, bool x_transposed, bool y_transposed) {
      return matrix_product_scratch_bytes({.m = m,
                                           .k = k,
                                           .n = n,
                                           .x_transposed = x_transposed,
                                           .y_transposed = y_transposed,
                                           .type = query_BHSE.scalar_type()});
    };
    for (const int64_t rows : {queries, rest == 0 ? queries : rest}) {
      product = std::max({product, ask(keys, rows, head_size, true, false),
                          ask(std::min<int64_t>(keys, 256), rows, head_size, true, false),
                          ask(rows, keys, head_size, false, false), ask(rows, head_size, keys, false, true)});
    }
    each += queries * keys * 2 * 2 + product + 4;
  }
  return copy + count * each;
}

void take_and_give_back(int64_t bytes) {
  if (bytes > 0) allocator().allocate(static_cast<size_t>(bytes));
}

}  // namespace fathom::phantom
