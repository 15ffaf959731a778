// Counts codes and scales.
#include "quant/layout.h"

#include "base/bytes.h"
#include "base/rounding.h"
#include "quant/nf4.h"
#include "quant/scales.h"

namespace fathom::quant {
namespace {

constexpr int64_t kFp32Bytes = 4;

}  // namespace

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
  }
  return "";
}

Layout layout_of(Scheme scheme, int64_t rows, int64_t columns) {
  const int64_t values = checked_multiply(rows, columns, "a quantized matrix");
  Layout layout;
  if (has_row_scales(scheme)) {
    layout.code_bytes = values;
    layout.scales = rows;
  } else {
    layout.code_bytes = divide_up(values, 2);
    layout.scales = divide_up(values, kNf4Block);
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
