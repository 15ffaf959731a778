// The table of formats; counts of codes and scales.
#include "quant/layout.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr int64_t kFp32Bytes = 4;

using config::RunConfig;
using enum Library;

constexpr SchemeRow kSchemes[] = {
    {Scheme::kFp8, "FP8", "fp8", Codes::kFp8, 0, kCompressedTensors, "load_in_fp8", &RunConfig::load_in_fp8},
    {Scheme::kInt8, "INT8", "int8", Codes::kInt8, 0, kBitsAndBytes, "load_in_8bit", &RunConfig::load_in_8bit},
    {Scheme::kNf4, "NF4", "nf4", Codes::kNf4, kNf4Block, kBitsAndBytes, "load_in_4bit", &RunConfig::load_in_4bit},
    {Scheme::kNf4DoubleQuant, "NF4, double quantization", "nf4-double", Codes::kNf4, kNf4Block, kBitsAndBytes,
     "load_in_4bit", &RunConfig::load_in_4bit},
    {Scheme::kInt4Group128, "INT4, groups of 128", "int4", Codes::kInt4, 128, kCompressedTensors},
    {Scheme::kInt4Group64, "INT4, groups of 64", "", Codes::kInt4, 64, kCompressedTensors},
    {Scheme::kInt4Group32, "INT4, groups of 32", "", Codes::kInt4, 32, kCompressedTensors},
    {Scheme::kInt4Group16, "INT4, groups of 16", "", Codes::kInt4, 16, kCompressedTensors},
};

}  // namespace

std::span<const SchemeRow> schemes() { return kSchemes; }

const SchemeRow& row_of(Scheme scheme) {
  return *std::find_if(std::begin(kSchemes), std::end(kSchemes),
                       [=](const SchemeRow& row) { return row.scheme == scheme; });
}

std::optional<Scheme> int4_of_group(int64_t values) {
  for (const Scheme scheme : kInt4Schemes) {
    if (block_of(scheme) == values) return scheme;
  }
  return std::nullopt;
}

Layout layout_of(Scheme scheme, int64_t rows, int64_t columns) {
  const int64_t values = checked_multiply(rows, columns, "a quantized matrix");
  const int64_t block = block_of(scheme);
  if (is_int4(scheme) && columns % block != 0) {
    throw Error("a matrix with " + std::to_string(columns) + " columns has no whole number of INT4's groups of " +
                std::to_string(block));
  }
  Layout layout;
  if (block == 0) {
    layout.code_bytes = values;
    layout.scales = rows;
  } else {
    layout.code_bytes = divide_up(values, 2);
    layout.scales = divide_up(values, block);
  }
  if (scheme == Scheme::kNf4DoubleQuant) {
    layout.outer_scales = divide_up(layout.scales, kScaleBlock) + 1;
    layout.scale_bytes = layout.scales + layout.outer_scales * kFp32Bytes;
  } else {
    layout.scale_bytes = checked_multiply(layout.scales, kFp32Bytes, "the scales of a quantized matrix");
  }
  return layout;
}

}  // namespace fathom::quant
