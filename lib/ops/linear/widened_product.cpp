// Blocks of three matrices that stay in the caches while they are worked on.
#include "ops/linear/widened_product.h"

#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm_cpu_dispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

#include "base/narrow_instructions.h"

namespace fathom::ops {
namespace {

// What LibTorch asks before it hands a product to oneDNN.
bool ask_libtorch(const char* name) {
  const auto found = c10::Dispatcher::singleton().findSchema({name, ""});
  return found && found->typed<bool()>().call();
}

// Of a block at most: wide enough for a product in FP32 at full speed beside the widening of its factors.
constexpr int64_t kDepth = 512, kSide = 512, kSideForMany = 1024, kMany = 8;

// As wide as the block and in the same order, without gaps.
at::Tensor like_block(float* memory, const at::Tensor& block) {
  const int64_t rows = block.size(0), columns = block.size(1);
  const bool transposed = block.stride(1) != 1 && block.stride(0) == 1;
  return transposed ? at::from_blob(memory, {columns, rows}, at::kFloat).t()
                    : at::from_blob(memory, {rows, columns}, at::kFloat);
}

at::Tensor widen(const at::Tensor& block, float* memory) {
  at::Tensor wide = like_block(memory, block);
  return wide.copy_(block);
}

}  // namespace

bool widens_products(at::ScalarType type) {
  if (type == at::kBFloat16) {
    static const bool multiplies = narrow_instructions().bf16 && ask_libtorch("mkldnn::_is_mkldnn_bf16_supported");
    return !multiplies;
  }
  if (type != at::kHalf) return false;
  static const bool multiplies = narrow_instructions().fp16 && ask_libtorch("mkldnn::_is_mkldnn_fp16_supported");
  return !multiplies;
}

void multiply_widened(const at::Tensor& x, const at::Tensor& y, const at::Tensor& out, const at::Tensor* sum,
                      const at::Scalar& alpha) {
  at::init_num_threads();  // LibTorch's threads are a property of each thread
  const int64_t m = x.size(0), k = x.size(1), n = y.size(1);
  const int64_t side = at::get_num_threads() > kMany ? kSideForMany : kSide;
  const int64_t rows = std::min(m, side), columns = std::min(n, side), depth = std::min(k, kDepth);
  const int64_t numbers = rows * depth + depth * columns + rows * columns;
  const at::DataPtr memory = c10::GetCPUAllocator()->allocate(static_cast<size_t>(numbers) * sizeof(float));
  auto* const x_memory = static_cast<float*>(memory.get());
  float *const y_memory = x_memory + rows * depth, *const sum_memory = y_memory + depth * columns;

  for (int64_t row = 0; row < m; row += rows) {
    const int64_t count = std::min(rows, m - row);
    for (int64_t column = 0; column < n; column += columns) {
      const int64_t width = std::min(columns, n - column);
      at::Tensor sums = at::from_blob(sum_memory, {count, width}, at::kFloat);
      if (sum != nullptr) sums.copy_(sum->narrow(0, row, count).narrow(1, column, width));
      for (int64_t first = 0; first < k; first += depth) {
        const int64_t length = std::min(depth, k - first);
        const at::Tensor left = widen(x.narrow(0, row, count).narrow(1, first, length), x_memory);
        const at::Tensor right = widen(y.narrow(0, first, length).narrow(1, column, width), y_memory);
        at::cpu::addmm_out(sums, sums, left, right, first > 0 || sum != nullptr ? 1 : 0, alpha);
      }
      out.narrow(0, row, count).narrow(1, column, width).copy_(sums);
    }
  }
}

}  // namespace fathom::ops
