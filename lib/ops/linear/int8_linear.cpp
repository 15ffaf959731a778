// INT8 products: in AMX's tiles where there are, for few rows by dot products, else by ATen's aten::_int_mm.
#include "ops/linear/int8_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "cpu/amx_codes.h"
#include "cpu/row_blocks.h"
#include "ops/linear/amx_threads.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/int8.h"

namespace fathom::ops {
namespace {

constexpr int64_t kInt8ValuesPerTask = 32768;
// Fewer rows wait for the weights, which dot products read once and in their order; a tile has sixteen.
constexpr int64_t kLeastTileRows = 16;
constexpr int64_t kLeastCudaRows = 17;  // of aten::_int_mm

const int8_t* codes_of(const at::Tensor& codes) { return codes.const_data_ptr<int8_t>(); }

#ifdef FATHOM_AMX

bool fits_tiles(const Int8Rows& x, const QuantizedMatrix& weight_ND) {
  if (x.in_tiles || weight_ND.in_tiles) return true;
  return x.codes_TD.is_cpu() && x.scales_T.size(0) >= kLeastTileRows && weight_ND.columns % 2 == 0 && amx::has_tiles();
}

// Two codes side by side as one number.
const uint16_t* pairs_of(const at::Tensor& codes) { return reinterpret_cast<const uint16_t*>(codes_of(codes)); }

void multiply_in_tiles(const Int8Rows& x, const QuantizedMatrix& weight_ND, const at::Tensor& out_TN) {
  const int64_t pairs = weight_ND.columns / 2;
  amx::multiply_on_threads(cpu::amx::Int8Product{
      .x = {pairs_of(x.codes_TD), x.scales_T.size(0), pairs, pairs, /*transposed=*/false, x.in_tiles},
      .y = {pairs_of(weight_ND.codes), pairs, weight_ND.rows, pairs, /*transposed=*/true, weight_ND.in_tiles},
      .x_scales_M = x.scales_T.const_data_ptr<float>(),
      .y_scales_N = weight_ND.scales.const_data_ptr<float>(),
      .out = out_TN.mutable_data_ptr(),
      .out_stride = out_TN.stride(0),
      .rounds = out_TN.scalar_type() == at::kBFloat16});
}

#endif

void multiply_by_dots(const Int8Rows& x, const QuantizedMatrix& weight_ND, const at::Tensor& out_TN) {
  const int64_t rows_count = x.scales_T.size(0), columns = weight_ND.columns;
  const auto* x_scales = x.scales_T.const_data_ptr<float>();
  const auto* weight_scales = weight_ND.scales.const_data_ptr<float>();
  const cpu::Rows out = rows(out_TN);
  const int64_t grain = std::max<int64_t>(1, kInt8ValuesPerTask / (columns * rows_count));
  at::parallel_for(0, weight_ND.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int8_t* weight = codes_of(weight_ND.codes) + row * columns;
      for (int64_t t = 0; t < rows_count; ++t) {
        const int32_t sum = quant::dot_int8(codes_of(x.codes_TD) + t * columns, weight, columns);
        float buffer = 0;
        float* value = cpu::target(out, t * weight_ND.rows + row, &buffer);
        *value = static_cast<float>(sum) * x_scales[t] * weight_scales[row];
        cpu::write(value, out, t * weight_ND.rows + row, 1);
      }
    }
  });
}

at::Tensor multiply_by_operators(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  const int64_t rows_count = x.codes_TD.size(0);
  at::Tensor codes_TD = x.codes_TD;
  const bool few = codes_TD.is_cuda() && rows_count < kLeastCudaRows;
  if (few) codes_TD = at::constant_pad_nd(codes_TD, {0, 0, 0, kLeastCudaRows - rows_count});
  at::Tensor sums_TN = at::_int_mm(codes_TD, weight_ND.codes.t());
  if (few) sums_TN = sums_TN.narrow(0, 0, rows_count);
  return sums_TN.to(at::kFloat).mul_(x.scales_T.unsqueeze(1)).mul_(weight_ND.scales).to(dtype);
}

}  // namespace

at::Tensor int8_product(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  const int64_t rows_count = x.scales_T.size(0);
  const auto multiply = [&](const auto& kernel, at::ScalarType made) {
    at::Tensor out_TN = at::empty({rows_count, weight_ND.rows}, x.codes_TD.options().dtype(made));
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::int8_product", traffic(x.codes_TD, weight_ND.codes, out_TN));
    kernel(x, weight_ND, out_TN);
    return out_TN.to(dtype);
  };
  const bool fits_kernels = dtype == at::kFloat || dtype == at::kBFloat16;
#ifdef FATHOM_AMX
  if (fits_tiles(x, weight_ND)) return multiply(multiply_in_tiles, fits_kernels ? dtype : at::kFloat);
#endif
  if (x.codes_TD.is_cpu() && rows_count < kLeastTileRows && fits_kernels) return multiply(multiply_by_dots, dtype);
  return multiply_by_operators(x, weight_ND, dtype);
}

void order_in_tiles(QuantizedMatrix& weight_ND) {
#ifdef FATHOM_AMX
  const int64_t width = weight_ND.columns;
  if (!weight_ND.codes.is_cpu() || !cpu::amx::fills_panels(weight_ND.rows, width) || !amx::has_tiles()) return;
  auto* codes = weight_ND.codes.mutable_data_ptr<int8_t>();
  at::parallel_for(0, weight_ND.rows / cpu::amx::kSide, 1, [&](int64_t begin, int64_t end) {
    std::vector<int8_t> copy(static_cast<size_t>(cpu::amx::kSide * width));
    for (int64_t panel = begin; panel < end; ++panel) {
      cpu::amx::order_panel(codes + panel * cpu::amx::kSide * width, width, copy.data());
    }
  });
  weight_ND.in_tiles = true;
#else
  (void)weight_ND;
#endif
}

}  // namespace fathom::ops
