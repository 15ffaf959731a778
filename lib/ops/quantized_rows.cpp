// Narrows codes and scales, and reads what is left as a matrix of its own.
#include "ops/quantized_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::ops {
namespace {

// FP32, of the blocks [first, first + count): doubly quantized ones read back, each with its outer scale.
at::Tensor scales_of_blocks(const QuantizedMatrix& matrix, int64_t first, int64_t count) {
  if (!matrix.outer_scales.defined()) return matrix.scales.narrow(0, first, count);
  at::Tensor scales = at::empty({count}, at::kFloat);
  const auto* codes = matrix.scales.const_data_ptr<uint8_t>();
  const auto* outer = matrix.outer_scales.const_data_ptr<float>();
  const float offset = outer[matrix.outer_scales.numel() - 1];
  for (int64_t done = 0; done < count;) {
    const int64_t block = first + done, n = std::min(count - done, quant::kScaleBlock - block % quant::kScaleBlock);
    quant::dequantize_scales(codes + block, outer[block / quant::kScaleBlock], offset, n,
                             scales.mutable_data_ptr<float>() + done);
    done += n;
  }
  return scales;
}

}  // namespace

at::Tensor dequantize_rows(const QuantizedMatrix& matrix, int64_t first, int64_t count) {
  QuantizedMatrix part = matrix;
  part.rows = count;
  const int64_t block = quant::block_of(matrix.scheme);
  if (block == 0) {
    part.codes = matrix.codes.narrow(0, first, count);
    part.scales = matrix.scales.narrow(0, first, count);
    return dequantize(part, at::kFloat);
  }
  const int64_t start = first * matrix.columns, values = count * matrix.columns;
  TORCH_CHECK(start % block == 0, "rows do not begin with a block");
  part.codes = matrix.codes.narrow(0, start / 2, divide_up(values, 2));
  part.scales = scales_of_blocks(matrix, start / block, divide_up(values, block));
  part.outer_scales = at::Tensor();
  if (quant::is_nf4(matrix.scheme)) part.scheme = quant::Scheme::kNf4;
  return dequantize(part, at::kFloat);
}

}  // namespace fathom::ops
