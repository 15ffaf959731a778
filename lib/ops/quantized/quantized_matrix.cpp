// Quantized matrices on CPUs, by the functions of lib/quant on rows and blocks; on GPUs by quantized_parts.h, or, where
// fathom's own kernels are in use, dequantized by one of them.
#include "ops/quantized/quantized_matrix.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "cpu/row_blocks.h"
#include "footprint/quantized_part_size.h"
#include "ledger/ledger.h"
#include "ops/cuda_kernels.h"
#include "ops/quantized/quantized_parts.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/mxfp4.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::ops {
namespace {

using quant::Scheme;

constexpr int64_t kValuesPerTask = 65536;

// Calls body(row) for the first `rows` rows.
template <typename Body>
void for_rows(const QuantizedMatrix& matrix, int64_t rows, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, kValuesPerTask / matrix.columns);
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) body(row);
  });
}

// Calls body(first, n) for each block of `values` values in a row; the last may be short.
template <typename Body>
void for_blocks(int64_t values, int64_t block, const Body& body) {
  const int64_t count = (values + block - 1) / block;
  at::parallel_for(0, count, std::max<int64_t>(1, kValuesPerTask / block), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i * block, std::min(block, values - i * block));
  });
}

const quant::CodesRow& kind_of_codes(const QuantizedMatrix& matrix) {
  return quant::row_of(quant::row_of(matrix.scheme).codes);
}

void quantize_part_on_cpu(const QuantizedMatrix& matrix, const at::Tensor& scales, int64_t first,
                          const at::Tensor& part_RD) {
  const auto* values = part_RD.const_data_ptr<float>();
  const int64_t start = first * matrix.columns;
  auto* codes = static_cast<uint8_t*>(matrix.codes.data_ptr());
  auto* out = scales.mutable_data_ptr<float>();
  const quant::CodesRow& kind = kind_of_codes(matrix);
  if (!quant::has_row_scales(matrix.scheme)) {
    const int64_t block = quant::block_of(matrix.scheme);
    for_blocks(part_RD.numel(), block, [&](int64_t value, int64_t n) {
      const int64_t place = start + value;
      out[place / block] = kind.quantize(values + value, n, codes + place * kind.bits / 8);
    });
    return;
  }
  for_rows(matrix, part_RD.size(0), [&](int64_t row) {
    const int64_t place = row * matrix.columns;
    out[first + row] = kind.quantize(values + place, matrix.columns, codes + (start + place) * kind.bits / 8);
  });
}

void quantize_all_scales_on_cpu(const QuantizedMatrix& matrix, const at::Tensor& scales) {
  const auto* values = scales.const_data_ptr<float>();
  auto* codes = matrix.scales.mutable_data_ptr<uint8_t>();
  auto* outer = matrix.outer_scales.mutable_data_ptr<float>();
  const float offset = quant::mean_scale(values, scales.numel());
  outer[matrix.outer_scales.numel() - 1] = offset;
  for_blocks(scales.numel(), quant::kScaleBlock, [&](int64_t first, int64_t n) {
    outer[first / quant::kScaleBlock] = quant::quantize_scales(values + first, offset, n, codes + first);
  });
}

// As mxfp4_exponent has them, of scales in FP32.
void write_exponents(const at::Tensor& scales, const at::Tensor& exponents) {
  const auto* from = scales.const_data_ptr<float>();
  std::transform(from, from + scales.numel(), exponents.mutable_data_ptr<uint8_t>(), quant::mxfp4_exponent);
}

// FP32 scales of a group of blocks that share an outer scale, if there are such, in `buffer` or where they lie.
const float* scales_of_group(const QuantizedMatrix& matrix, int64_t block, int64_t count, float* buffer) {
  if (quant::is_mxfp4(matrix.scheme)) {
    const auto* exponents = matrix.scales.const_data_ptr<uint8_t>() + block;
    for (int64_t i = 0; i < count; ++i) buffer[i] = quant::kMxfp4Scales[exponents[i]];
    return buffer;
  }
  if (!matrix.outer_scales.defined()) return matrix.scales.const_data_ptr<float>() + block;
  const auto* outer = matrix.outer_scales.const_data_ptr<float>();
  quant::dequantize_scales(matrix.scales.const_data_ptr<uint8_t>() + block, outer[block / quant::kScaleBlock],
                           outer[matrix.outer_scales.numel() - 1], count, buffer);
  return buffer;
}

void dequantize_blocks_on_cpu(const QuantizedMatrix& matrix, cpu::Rows out) {
  constexpr int64_t kBlocks = cpu::kBlock / quant::kMxfp4Block;  // of those that are not there in FP32
  static_assert(quant::kScaleBlock % (cpu::kBlock / quant::kNf4Block) == 0 && quant::kNf4Block > quant::kMxfp4Block);
  const int64_t size = quant::block_of(matrix.scheme);
  const quant::CodesRow& kind = kind_of_codes(matrix);
  const auto* codes = static_cast<const uint8_t*>(matrix.codes.const_data_ptr());
  for_blocks(matrix.rows * matrix.columns, cpu::kBlock, [&](int64_t first, int64_t n) {
    std::array<float, cpu::kBlock> buffer;
    std::array<float, kBlocks> scale_buffer;
    const int64_t count = (n + size - 1) / size;
    const float* scales = scales_of_group(matrix, first / size, count, scale_buffer.data());
    float* values = cpu::target(out, first, buffer.data());
    for (int64_t block = 0; block < count; ++block) {
      const int64_t place = block * size;
      kind.dequantize(codes + (first + place) * kind.bits / 8, scales[block], std::min(size, n - place),
                      values + place);
    }
    cpu::write(values, out, first, n);
  });
}

void dequantize_rows_on_cpu(const QuantizedMatrix& matrix, cpu::Rows out) {
  const auto* codes = static_cast<const uint8_t*>(matrix.codes.const_data_ptr());
  const auto* scales = matrix.scales.const_data_ptr<float>();
  const quant::CodesRow& kind = kind_of_codes(matrix);
  for_rows(matrix, matrix.rows, [&](int64_t row) {
    std::array<float, cpu::kBlock> buffer;
    for (int64_t column = 0; column < matrix.columns; column += cpu::kBlock) {
      const int64_t place = row * matrix.columns + column, n = std::min(cpu::kBlock, matrix.columns - column);
      float* values = cpu::target(out, place, buffer.data());
      kind.dequantize(codes + place * kind.bits / 8, scales[row], n, values);
      cpu::write(values, out, place, n);
    }
  });
}

const float* numbers_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

at::Tensor table(std::span<const float> values, at::IntArrayRef sizes, at::Device device) {
  const at::Tensor on_host = at::from_blob(const_cast<float*>(values.data()), sizes, at::kFloat);
  return on_host.to(device);
}

}  // namespace

QuantTables make_quant_tables(Scheme scheme, at::Device device) {
  QuantTables tables;
  if (!device.is_cuda() || !quant::is_in_4_bits(scheme)) return tables;
  const ledger::ClaimScope claim(memory::Component::kFunctionality);
  std::vector<float> pairs;
  for (size_t byte = 0; byte < 256; ++byte) {
    const size_t high = byte >> 4, low = byte & 15;
    if (quant::is_int4(scheme)) {
      pairs.push_back(static_cast<float>(low) + quant::kSmallestInt4Code);
      pairs.push_back(static_cast<float>(high) + quant::kSmallestInt4Code);
    } else if (quant::is_mxfp4(scheme)) {
      pairs.push_back(quant::kMxfp4Values[low]);
      pairs.push_back(quant::kMxfp4Values[high]);
    } else {
      pairs.push_back(quant::kNf4Values[high]);
      pairs.push_back(quant::kNf4Values[low]);
    }
  }
  tables.pairs_256x2 = table(pairs, {256, 2}, device);
  if (quant::is_mxfp4(scheme)) tables.dynamic_256 = table(quant::kMxfp4Scales, {256}, device);
  if (!quant::is_nf4(scheme)) return tables;
  tables.thresholds_15 = table(quant::kNf4Thresholds, {15}, device);
  if (!quant::has_double_scales(scheme)) return tables;
  tables.dynamic_256 = table(quant::kSignedDynamic.values, {256}, device);
  tables.boundaries_255 = table(quant::kSignedDynamic.midpoints, {255}, device);
  return tables;
}

QuantizedMatrix empty_quantized_matrix(Scheme scheme, int64_t rows, int64_t columns, at::Device device,
                                       const QuantTables& tables) {
  const quant::Layout layout = quant::layout_of(scheme, rows, columns);
  const auto options = at::TensorOptions().device(device);
  QuantizedMatrix matrix;
  matrix.scheme = scheme;
  matrix.rows = rows;
  matrix.columns = columns;
  matrix.tables = tables;
  if (!quant::is_in_4_bits(scheme)) {
    matrix.codes = at::empty({rows, columns}, options.dtype(quant::is_fp8(scheme) ? at::kFloat8_e4m3fn : at::kChar));
  } else {
    matrix.codes = at::empty({layout.code_bytes}, options.dtype(at::kByte));
  }
  matrix.scales = at::empty({layout.scales}, options.dtype(quant::has_byte_scales(scheme) ? at::kByte : at::kFloat));
  if (layout.outer_scales > 0) matrix.outer_scales = at::empty({layout.outer_scales}, options.dtype(at::kFloat));
  return matrix;
}

void quantize(const QuantizedMatrix& matrix, const std::function<void(int64_t first, at::Tensor part_RD)>& fill) {
  const auto options = at::TensorOptions().device(matrix.codes.device()).dtype(at::kFloat);
  const bool on_cpu = matrix.codes.is_cpu(), computes = !matrix.codes.is_privateuseone();
  const bool mxfp4 = quant::is_mxfp4(matrix.scheme);
  TORCH_CHECK(!mxfp4 || !matrix.codes.is_cuda(), "MXFP4 is made on a CPU alone");
  const at::Tensor scales =
      quant::has_byte_scales(matrix.scheme) ? at::empty(matrix.scales.sizes(), options) : matrix.scales;
  {
    const int64_t part_rows = footprint::quantized_part_rows(matrix.rows, matrix.columns, matrix.codes.is_cuda());
    const at::Tensor buffer = at::empty({part_rows, matrix.columns}, options);
    for (int64_t first = 0; first < matrix.rows; first += part_rows) {
      const at::Tensor part_RD = buffer.narrow(0, 0, std::min(part_rows, matrix.rows - first));
      fill(first, part_RD);
      if (on_cpu) {
        quantize_part_on_cpu(matrix, scales, first, part_RD);
      } else if (computes) {
        quantize_part(matrix, scales, first, part_RD);
      }
    }
  }
  if (mxfp4 && on_cpu) write_exponents(scales, matrix.scales);
  if (!matrix.outer_scales.defined()) return;
  if (on_cpu) {
    quantize_all_scales_on_cpu(matrix, scales);
  } else if (computes) {
    quantize_all_scales(matrix, scales);
  }
}

CodedMatrix coded(const QuantizedMatrix& matrix) {
  static_assert(kScalesPerOuter == quant::kScaleBlock);
  CodedMatrix made;
  switch (quant::row_of(matrix.scheme).codes) {
    case quant::Codes::kInt8:
      made.kind = CodedMatrix::Kind::kInt8;
      break;
    case quant::Codes::kFp8:
      made.kind = CodedMatrix::Kind::kFp8;
      break;
    case quant::Codes::kNf4:
      made.kind = CodedMatrix::Kind::kNf4;
      break;
    case quant::Codes::kInt4:
    case quant::Codes::kMxfp4:  // which differ by their tables
      made.kind = CodedMatrix::Kind::kInt4;
      break;
  }
  made.codes = matrix.codes.const_data_ptr();
  made.values = matrix.rows * matrix.columns;
  made.values_per_scale = quant::has_row_scales(matrix.scheme) ? matrix.columns : quant::block_of(matrix.scheme);
  made.scales = matrix.scales.const_data_ptr();
  made.pairs_256x2 = numbers_of(matrix.tables.pairs_256x2);
  if (quant::has_byte_scales(matrix.scheme)) made.dynamic_256 = numbers_of(matrix.tables.dynamic_256);
  if (!matrix.outer_scales.defined()) return made;
  made.outer_scales = numbers_of(matrix.outer_scales);
  made.offset = made.outer_scales + matrix.outer_scales.numel() - 1;
  return made;
}

at::Tensor dequantize(const QuantizedMatrix& matrix, at::ScalarType dtype) {
  TORCH_CHECK(!matrix.in_tiles, "codes in tiles are read by products of INT8 alone");
  if (matrix.codes.is_cuda() && cuda_kernels_for(matrix.codes.device(), dtype) == nullptr) {
    return dequantize_in_parts(matrix, dtype);
  }
  at::Tensor out_ND = at::empty({matrix.rows, matrix.columns}, matrix.codes.options().dtype(dtype));
  dequantize_into(matrix, out_ND);
  return out_ND;
}

void dequantize_into(const QuantizedMatrix& matrix, const at::Tensor& out_ND) {
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::dequantize", traffic(matrix.codes, matrix.scales, out_ND));
  if (const CudaKernels* cuda = cuda_kernels_for(out_ND)) {
    check_launch("dequantize", cuda->dequantize(coded(matrix), rows(out_ND), current_stream(out_ND)));
  }
  if (!out_ND.is_cpu()) return;
  if (quant::has_row_scales(matrix.scheme)) {
    dequantize_rows_on_cpu(matrix, rows(out_ND));
  } else {
    dequantize_blocks_on_cpu(matrix, rows(out_ND));
  }
}

}  // namespace fathom::ops
