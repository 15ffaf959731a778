// Rows quantized where they are read: into tiles, side by side, or by ATen's operators.
#include "ops/quantized/int8_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/rounding.h"
#include "cpu/amx_codes.h"
#include "cpu/row_blocks.h"
#include "ops/linear/amx_threads.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/int8.h"

namespace fathom::ops {
namespace {

constexpr int64_t kRowValuesPerTask = 32768;

bool fills_tiles(int64_t width) {
#ifdef FATHOM_AMX
  return cpu::amx::fills_strips(width) && amx::has_tiles();
#else
  (void)width;
  return false;
#endif
}

// What one thread works in.
struct RowScratch {
  explicit RowScratch(int64_t width) : values(static_cast<size_t>(width)), side_by_side(static_cast<size_t>(width)) {}
  std::vector<float> values;
  std::vector<int8_t> side_by_side;
};

// Returns the scale.
float quantize_row(const cpu::Rows& in, int64_t row, int64_t width, RowScratch& scratch, int8_t* codes) {
  return quant::quantize_int8(cpu::read(in, row * width, width, scratch.values.data()), width, codes);
}

float quantize_row_into_tiles(const cpu::Rows& in, int64_t row, int64_t width, RowScratch& scratch, int8_t* codes) {
  int8_t* first = codes + cpu::amx::place_in_strips(row, 0, width);
#ifdef FATHOM_AMX
  if (in.type == cpu::RowType::kBF16) {
    return cpu::amx::quantize_into_tiles(static_cast<const uint16_t*>(in.data) + row * width, width, first);
  }
#endif
  int8_t* side_by_side = scratch.side_by_side.data();
  const float scale = quantize_row(in, row, width, scratch, side_by_side);
  for (int64_t column = 0; column < width; column += cpu::amx::kTileCodes) {
    std::memcpy(first + column * cpu::amx::kTileRows, side_by_side + column, cpu::amx::kTileCodes);
  }
  return scale;
}

Int8Rows quantize_rows_on_cpu(const at::Tensor& x_TD) {
  const int64_t rows_count = x_TD.size(0), width = x_TD.size(1);
  const bool in_tiles = fills_tiles(width);
  Int8Rows quantized{at::empty({in_tiles ? round_up(rows_count, cpu::amx::kTileRows) : rows_count, width}, at::kChar),
                     at::empty({rows_count}, at::kFloat), in_tiles};
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::quantize_rows", traffic(x_TD, quantized.codes_TD, quantized.scales_T));
  const cpu::Rows in = rows(x_TD);
  auto* codes = quantized.codes_TD.mutable_data_ptr<int8_t>();
  auto* scales = quantized.scales_T.mutable_data_ptr<float>();
  const int64_t grain = std::max<int64_t>(1, kRowValuesPerTask / width);
  at::parallel_for(0, rows_count, grain, [&](int64_t begin, int64_t end) {
    RowScratch scratch(width);
    for (int64_t row = begin; row < end; ++row) {
      scales[row] = in_tiles ? quantize_row_into_tiles(in, row, width, scratch, codes)
                             : quantize_row(in, row, width, scratch, codes + row * width);
    }
  });
  return quantized;
}

// As quant::quantize_int8, but for rows of magnitudes below 1e-28.
Int8Rows quantize_rows_by_operators(const at::Tensor& x_TD) {
  const at::Tensor wide_TD = x_TD.to(at::kFloat);
  const at::Tensor largest_T1 = wide_TD.abs().amax(1, /*keepdim=*/true);
  const at::Tensor codes_TD =
      (wide_TD * (quant::kLargestInt8Code / largest_T1.clamp_min(1e-28))).round_().to(at::kChar);
  return {codes_TD, largest_T1.div_(quant::kLargestInt8Code).squeeze(1)};
}

}  // namespace

Int8Rows quantize_rows(const at::Tensor& x_TD) {
  return has_kernel(x_TD) && x_TD.is_cpu() ? quantize_rows_on_cpu(x_TD.contiguous()) : quantize_rows_by_operators(x_TD);
}

}  // namespace fathom::ops
