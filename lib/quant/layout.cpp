// The table of formats; counts of codes and scales.
#include "quant/layout.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/rounding.h"
#include "quant/fp8.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "quant/mxfp4.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr int64_t kFp32Bytes = 4;

using config::RunConfig;
using enum Library;

float quantize_to_int8(const float* values, int64_t n, uint8_t* codes) {
  return quantize_int8(values, n, reinterpret_cast<int8_t*>(codes));
}
void dequantize_from_int8(const uint8_t* codes, float scale, int64_t n, float* values) {
  dequantize_int8(reinterpret_cast<const int8_t*>(codes), scale, n, values);
}

constexpr CodesRow kCodes[] = {{Codes::kInt8, 8, quantize_to_int8, dequantize_from_int8},
                               {Codes::kFp8, 8, quantize_fp8, dequantize_fp8},
                               {Codes::kNf4, 4, quantize_nf4, dequantize_nf4},
                               {Codes::kInt4, 4, quantize_int4, dequantize_int4},
                               {Codes::kMxfp4, 4, quantize_mxfp4, dequantize_mxfp4}};

constexpr SchemeRow kSchemes[] = {
    {Scheme::kFp8, "FP8", "fp8", Codes::kFp8, 0, kCompressedTensors, "load_in_fp8", &RunConfig::load_in_fp8},
    {Scheme::kFp8Block128, "FP8, blocks of 128", "", Codes::kFp8, 128, kBlockFp8},
    {Scheme::kInt8, "INT8", "int8", Codes::kInt8, 0, kBitsAndBytes, "load_in_8bit", &RunConfig::load_in_8bit},
    {Scheme::kNf4, "NF4", "nf4", Codes::kNf4, kNf4Block, kBitsAndBytes, "load_in_4bit", &RunConfig::load_in_4bit},
    {Scheme::kNf4DoubleQuant, "NF4, double quantization", "nf4-double", Codes::kNf4, kNf4Block, kBitsAndBytes,
     "load_in_4bit", &RunConfig::load_in_4bit},
    {Scheme::kInt4Group128, "INT4, groups of 128", "int4", Codes::kInt4, 128, kCompressedTensors},
    {Scheme::kInt4Group64, "INT4, groups of 64", "", Codes::kInt4, 64, kCompressedTensors},
    {Scheme::kInt4Group32, "INT4, groups of 32", "", Codes::kInt4, 32, kCompressedTensors},
    {Scheme::kInt4Group16, "INT4, groups of 16", "", Codes::kInt4, 16, kCompressedTensors},
    {Scheme::kMxfp4, "MXFP4", "", Codes::kMxfp4, kMxfp4Block, kTransformers},
};

}  // namespace

std::span<const SchemeRow> schemes() { return kSchemes; }

const SchemeRow& row_of(Scheme scheme) { return *std::ranges::find(kSchemes, scheme, &SchemeRow::scheme); }
const CodesRow& row_of(Codes codes) { return *std::ranges::find(kCodes, codes, &CodesRow::codes); }

std::optional<Scheme> int4_of_group(int64_t values) {
  for (const Scheme scheme : kInt4Schemes) {
    if (block_of(scheme) == values) return scheme;
  }
  return std::nullopt;
}

Layout layout_of(Scheme scheme, int64_t rows, int64_t columns) {
  const int64_t values = checked_multiply(rows, columns, "a quantized matrix");
  const int64_t block = block_of(scheme);
  if (has_blocks_of_rows(scheme) && columns % block != 0) {
    throw Error("a matrix with " + std::to_string(columns) + " columns has no whole number of " +
                (is_int4(scheme)    ? "INT4's groups of "
                 : is_mxfp4(scheme) ? "MXFP4's blocks of "
                                    : "FP8's blocks of ") +
                std::to_string(block));
  }
  Layout layout;
  layout.code_bytes = is_in_4_bits(scheme) ? divide_up(values, 2) : values;
  layout.scales = has_row_scales(scheme) ? rows : divide_up(values, block);
  if (has_double_scales(scheme)) {
    layout.outer_scales = divide_up(layout.scales, kScaleBlock) + 1;
    layout.scale_bytes = layout.scales + layout.outer_scales * kFp32Bytes;
  } else {
    const int64_t each = has_byte_scales(scheme) ? 1 : kFp32Bytes;
    layout.scale_bytes = checked_multiply(layout.scales, each, "the scales of a quantized matrix");
  }
  return layout;
}

}  // namespace fathom::quant
