// Narrows codes and scales, and reads what is left as a matrix of its own.
#include "ops/quantized/quantized_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::ops {
namespace {

// FP32, of `count` blocks from `first` on, as far as there are so many: doubly quantized ones read back, each with its
// outer scale.
at::Tensor scales_of_blocks(const QuantizedMatrix& matrix, int64_t first, int64_t count) {
  const int64_t known = std::min(count, matrix.scales.numel() - first);
  if (!matrix.outer_scales.defined()) return matrix.scales.narrow(0, first, known);
  at::Tensor scales = at::empty({count}, matrix.scales.options().dtype(at::kFloat));
  if (!scales.is_cpu()) return scales;
  const auto* codes = matrix.scales.const_data_ptr<uint8_t>();
  const auto* outer = matrix.outer_scales.const_data_ptr<float>();
  const float offset = outer[matrix.outer_scales.numel() - 1];
  for (int64_t done = 0; done < known;) {
    const int64_t block = first + done, n = std::min(known - done, quant::kScaleBlock - block % quant::kScaleBlock);
    quant::dequantize_scales(codes + block, outer[block / quant::kScaleBlock], offset, n,
                             scales.mutable_data_ptr<float>() + done);
    done += n;
  }
  return scales;
}

}  // namespace

at::Tensor dequantize_rows(const QuantizedMatrix& matrix, int64_t first, int64_t count, at::ScalarType dtype) {
  QuantizedMatrix part = matrix;
  part.rows = count;
  if (!quant::is_in_4_bits(matrix.scheme)) {
    const int64_t scales = matrix.scales.size(0) / matrix.rows;  // of each row
    part.codes = matrix.codes.narrow(0, first, count);
    part.scales = matrix.scales.narrow(0, first * scales, count * scales);
    return dequantize(part, dtype);
  }
  const int64_t block = quant::block_of(matrix.scheme);
  // Rows that need not begin with a block are read from the block that they begin in, into room for one more.
  const int64_t start = first * matrix.columns, values = count * matrix.columns;
  const int64_t lead = start % block, begin = start - lead, read = lead + values;
  const int64_t room = lead == 0 && values % block == 0 ? values : values + block;
  part.rows = 1;
  part.columns = read;
  part.codes = matrix.codes.narrow(0, begin / 2, divide_up(read, 2));
  part.scales = scales_of_blocks(matrix, begin / block, divide_up(room, block));
  part.outer_scales = at::Tensor();
  if (quant::is_nf4(matrix.scheme)) part.scheme = quant::Scheme::kNf4;
  const at::Tensor out = at::empty({room}, matrix.codes.options().dtype(dtype));
  dequantize_into(part, out.narrow(0, 0, read).view({1, read}));
  return out.narrow(0, lead, values).view({count, matrix.columns});
}

}  // namespace fathom::ops
