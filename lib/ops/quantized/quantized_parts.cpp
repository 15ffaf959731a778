// Tables are looked up by index_select, blocks are scaled through views.
#include "ops/quantized/quantized_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/rounding.h"
#include "base/split_mix.h"
#include "footprint/quantized_part_size.h"
#include "ledger/operator_repeats.h"
#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::ops {
namespace {

// A scale below it is as good as zero; its inverse is still a number.
constexpr double kSmallestScale = 1e-30;

// Rows [first, first + n). A matrix of a large model has many parts, and on a GPU the host's time is that of the
// operators it dispatches, of which a view is one: none is made of the whole.
at::Tensor part_of(const at::Tensor& x, int64_t first, int64_t n) {
  return n == x.size(0) ? x : x.slice(0, first, first + n);
}

// values [n] times the scale of their block, in place; the last block may be short.
void scale_blocks(const at::Tensor& values, int64_t block, const at::Tensor& scales) {
  const int64_t n = values.size(0), whole = n / block;
  if (whole > 0) part_of(values, 0, whole * block).view({whole, block}).mul_(part_of(scales, 0, whole).unsqueeze(1));
  if (n > whole * block) part_of(values, whole * block, n - whole * block).mul_(part_of(scales, whole, 1));
}

// [n] as [ceil(n / block), block], zeros behind the last value.
at::Tensor in_blocks(const at::Tensor& values, int64_t block) {
  const int64_t n = values.size(0), count = divide_up(n, block);
  if (n == count * block) return values.view({count, block});
  at::Tensor padded = at::zeros({count * block}, values.options());
  padded.narrow(0, 0, n).copy_(values);
  return padded.view({count, block});
}

// Divides each row by its largest magnitude, which goes to `scales`.
void normalise(const at::Tensor& rows, const at::Tensor& scales) {
  scales.copy_(rows.abs().amax(1));
  rows.mul_(scales.clamp_min(kSmallestScale).reciprocal_().unsqueeze(1));
}

// Of rows that have a scale each; blocks of a row are such rows, of the same numbers in the same order.
void quantize_rows(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first, const at::Tensor& part_RD) {
  const bool fp8 = quant::is_fp8(matrix.scheme);
  const double largest = fp8 ? quant::kLargestFp8Code : quant::kLargestInt8Code;
  const int64_t rows = part_RD.size(0), each = scales.size(0) / matrix.rows;
  const at::Tensor of_rows = scales.narrow(0, first * each, rows * each);
  const at::Tensor scaled = each == 1 ? part_RD : part_RD.view({rows * each, matrix.columns / each});
  of_rows.copy_(scaled.abs().amax(1).div_(largest));
  scaled.div_(of_rows.clamp_min(kSmallestScale).unsqueeze(1));
  if (!fp8) part_RD.round_();
  matrix.codes.narrow(0, first, rows).copy_(part_RD);
}

void quantize_nf4_blocks(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first,
                         const at::Tensor& part_RD) {
  const int64_t start = first * matrix.columns, n = part_RD.numel();
  const at::Tensor blocks = in_blocks(part_RD.view({n}), quant::kNf4Block);
  normalise(blocks, part_of(scales, start / quant::kNf4Block, blocks.size(0)));
  const at::Tensor codes =
      at::bucketize(blocks, matrix.tables.thresholds_15, /*out_int32=*/true).view({blocks.numel() / 2, 2});
  const at::Tensor packed = codes.select(1, 0).mul(16).add_(codes.select(1, 1));
  const int64_t bytes = divide_up(n, 2);
  part_of(matrix.codes, start / 2, bytes).copy_(part_of(packed, 0, bytes));
}

void quantize_int4_groups(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first,
                          const at::Tensor& part_RD) {
  const int64_t group = quant::block_of(matrix.scheme), start = first * matrix.columns, n = part_RD.numel();
  const at::Tensor groups = part_RD.view({n / group, group});
  const at::Tensor of_groups = scales.narrow(0, start / group, n / group);
  of_groups.copy_(groups.abs().amax(1).div_(quant::kInt4CodesPerSide));
  groups.div_(of_groups.clamp_min(kSmallestScale).unsqueeze(1)).round_();
  groups.clamp_(quant::kSmallestInt4Code, quant::kLargestInt4Code).sub_(quant::kSmallestInt4Code);
  const at::Tensor codes = groups.view({n / 2, 2});
  matrix.codes.narrow(0, start / 2, n / 2).copy_(codes.select(1, 1).mul(16).add_(codes.select(1, 0)));
}

// What stands for codes, looked up part by part in memory that is taken once.
class Lookup {
 public:
  // table: what stands for each byte, [256, ...]; the most bytes of a part.
  Lookup(at::Tensor table, int64_t most, const at::TensorOptions& options)
      : table_(std::move(table)), indices_(at::empty({most}, options.dtype(at::kInt))) {
    std::vector<int64_t> sizes = table_.sizes().vec();
    sizes.front() = most;
    found_ = at::empty(sizes, options.dtype(at::kFloat));
  }
  // Until the next part.
  at::Tensor of(const at::Tensor& bytes) {
    const int64_t n = bytes.size(0);
    const at::Tensor indices = part_of(indices_, 0, n);
    at::Tensor found = part_of(found_, 0, n);
    indices.copy_(bytes);
    return at::index_select_out(found, table_, 0, indices);
  }

 private:
  at::Tensor table_, indices_, found_;
};

// Of blocks in FP32.
class BlockScales {
 public:
  BlockScales(const QuantizedMatrix& matrix, int64_t most) : matrix_(matrix) {
    if (!quant::has_byte_scales(matrix.scheme)) return;
    lookup_.emplace(matrix.tables.dynamic_256, most, matrix.scales.options());
  }
  // [first, first + count), until the next ones.
  at::Tensor of(int64_t first, int64_t count) {
    at::Tensor stored = part_of(matrix_.scales, first, count);
    if (!lookup_) return stored;
    at::Tensor scales = lookup_->of(stored);
    if (!matrix_.outer_scales.defined()) return scales;
    const int64_t outer = matrix_.outer_scales.size(0) - 1, begin = first / quant::kScaleBlock;
    scale_blocks(scales, quant::kScaleBlock, matrix_.outer_scales.narrow(0, begin, outer - begin));
    return scales.add_(matrix_.outer_scales.narrow(0, outer, 1));
  }

 private:
  const QuantizedMatrix& matrix_;
  std::optional<Lookup> lookup_;
};

uint64_t kind_of_part(const char* what, const QuantizedMatrix& matrix, int64_t values) {
  NumberHash hash;
  for (; *what != '\0'; ++what) hash.add(static_cast<uint64_t>(*what));
  for (const int64_t number : {static_cast<int64_t>(matrix.scheme), matrix.columns, values}) {
    hash.add(static_cast<uint64_t>(number));
  }
  return hash.value();
}

// Codes and scales of a part.
void quantize_one(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first, const at::Tensor& part_RD) {
  switch (quant::row_of(matrix.scheme).codes) {
    case quant::Codes::kInt8:
    case quant::Codes::kFp8:
      return quantize_rows(matrix, scales, first, part_RD);
    case quant::Codes::kNf4:
      return quantize_nf4_blocks(matrix, scales, first, part_RD);
    case quant::Codes::kInt4:
      return quantize_int4_groups(matrix, scales, first, part_RD);
    case quant::Codes::kMxfp4:  // ops::quantize refuses it
      break;
  }
}

}  // namespace

void quantize_part(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first, const at::Tensor& part_RD) {
  const at::AutoDispatchBelowADInplaceOrView below;  // nothing of it is differentiated
  ledger::repeat_in_operator(kind_of_part("quantize", matrix, part_RD.numel()),
                             [&] { quantize_one(matrix, scales, first, part_RD); });
}

void quantize_all_scales(const QuantizedMatrix& matrix, const at::Tensor& scales) {
  const int64_t outer = matrix.outer_scales.size(0) - 1, n = scales.size(0);
  const at::Tensor offset = scales.mean();
  const at::Tensor blocks = in_blocks(scales.sub_(offset), quant::kScaleBlock);
  normalise(blocks, matrix.outer_scales.narrow(0, 0, outer));
  matrix.scales.copy_(at::bucketize(blocks, matrix.tables.boundaries_255, true).view({-1}).narrow(0, 0, n));
  matrix.outer_scales.narrow(0, outer, 1).copy_(offset);
}

at::Tensor dequantize_in_parts(const QuantizedMatrix& matrix, at::ScalarType dtype) {
  if (!quant::is_in_4_bits(matrix.scheme)) {
    at::Tensor out_ND = matrix.codes.to(dtype);
    const int64_t scales = matrix.scales.size(0);
    (scales == matrix.rows ? out_ND : out_ND.view({scales, -1})).mul_(matrix.scales.unsqueeze(1));
    return out_ND;
  }
  const int64_t values = matrix.rows * matrix.columns, block = quant::block_of(matrix.scheme);
  const at::AutoDispatchBelowADInplaceOrView below;  // frozen weights: nothing of them is differentiated
  at::Tensor out_ND = at::empty({matrix.rows, matrix.columns}, matrix.codes.options().dtype(dtype));
  const at::Tensor out_n = out_ND.view({-1});
  const int64_t most = std::min(footprint::kDequantizedPart, values);
  Lookup numbers(matrix.tables.pairs_256x2, divide_up(most, 2), matrix.codes.options());
  BlockScales scales(matrix, divide_up(most, block));
  // Whole blocks, or less than one.
  const auto dequantize_part = [&](int64_t first, int64_t n) {
    const int64_t size = std::min(block, n), blocks = n / size;
    const at::Tensor found = part_of(numbers.of(part_of(matrix.codes, first / 2, divide_up(n, 2))).view({-1}), 0, n);
    found.view({blocks, size}).mul_(scales.of(first / block, blocks).unsqueeze(1));
    part_of(out_n, first, n).copy_(found);
  };
  const int64_t whole = values / block * block;
  for (int64_t first = 0; first < values;) {
    const int64_t n = first < whole ? std::min(footprint::kDequantizedPart, whole - first) : values - first;
    ledger::repeat_in_operator(kind_of_part("dequantize", matrix, n), [&] { dequantize_part(first, n); });
    first += n;
  }
  return out_ND;
}

}  // namespace fathom::ops
