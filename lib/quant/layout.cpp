// Counts codes and scales.
#include "quant/layout.h"

#include <string>

#include "base/bytes.h"
#include "base/error.h"
#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr int64_t kFp32Bytes = 4;

}  // namespace

int64_t block_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::kInt8:
    case Scheme::kFp8:
      return 0;
    case Scheme::kNf4:
    case Scheme::kNf4DoubleQuant:
      return kNf4Block;
    case Scheme::kInt4Group128:
      return 128;
    case Scheme::kInt4Group64:
      return 64;
    case Scheme::kInt4Group32:
      return 32;
    case Scheme::kInt4Group16:
      return 16;
  }
  return 0;
}

std::optional<Scheme> int4_of_group(int64_t values) {
  for (const Scheme scheme : kInt4Schemes) {
    if (block_of(scheme) == values) return scheme;
  }
  return std::nullopt;
}

std::string_view name_of(Scheme scheme) {
  switch (scheme) {
    case Scheme::kInt8:
      return "INT8";
    case Scheme::kFp8:
      return "FP8";
    case Scheme::kNf4:
      return "NF4";
    case Scheme::kNf4DoubleQuant:
      return "NF4, double quantization";
    case Scheme::kInt4Group128:
      return "INT4, groups of 128";
    case Scheme::kInt4Group64:
      return "INT4, groups of 64";
    case Scheme::kInt4Group32:
      return "INT4, groups of 32";
    case Scheme::kInt4Group16:
      return "INT4, groups of 16";
  }
  return "";
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
