// INT8 products: in AMX's tiles where there are, for few rows by dot products, else by ATen's aten::_int_mm.
#include "ops/int8_linear.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>

#include <algorithm>
#include <vector>

#include "ops/amx_threads.h"
#include "ops/row_blocks.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/int8.h"

namespace fathom::ops {
namespace {

constexpr int64_t kValuesPerTask = 32768;
// Fewer rows wait for the weights, which dot products read once and in their order; a tile has sixteen.
constexpr int64_t kLeastTileRows = 16;
constexpr int64_t kLeastCudaRows = 17;  // of aten::_int_mm

const int8_t* codes_of(const at::Tensor& codes) { return codes.const_data_ptr<int8_t>(); }

Int8Rows quantize_rows_on_cpu(const at::Tensor& x_TD) {
  const int64_t rows_count = x_TD.size(0), width = x_TD.size(1);
  Int8Rows quantized{at::empty({rows_count, width}, at::kChar), at::empty({rows_count}, at::kFloat)};
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::quantize_rows", traffic(x_TD, quantized.codes_TD, quantized.scales_T));
  const kernels::Rows in = rows(x_TD);
  auto* codes = quantized.codes_TD.mutable_data_ptr<int8_t>();
  auto* scales = quantized.scales_T.mutable_data_ptr<float>();
  const int64_t grain = std::max<int64_t>(1, kValuesPerTask / width);
  at::parallel_for(0, rows_count, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> buffer(static_cast<size_t>(width));
    for (int64_t row = begin; row < end; ++row) {
      const float* values = kernels::read(in, row * width, width, buffer.data());
      scales[row] = quant::quantize_int8(values, width, codes + row * width);
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

#ifdef FATHOM_AMX

bool fits_tiles(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  return x.codes_TD.is_cpu() && x.codes_TD.size(0) >= kLeastTileRows && weight_ND.columns % 2 == 0 &&
         (dtype == at::kFloat || dtype == at::kBFloat16) && at::native::cpublas::could_pack(at::kBFloat16);
}

// Two codes side by side as one number.
amx::Factor pairs_of(const at::Tensor& codes, bool transposed) {
  const int64_t rows_count = codes.size(0), pairs = codes.size(1) / 2;
  return {reinterpret_cast<const uint16_t*>(codes_of(codes)), transposed ? pairs : rows_count,
          transposed ? rows_count : pairs, pairs, transposed};
}

void multiply_in_tiles(const Int8Rows& x, const QuantizedMatrix& weight_ND, const at::Tensor& out_TN) {
  amx::multiply_on_threads(amx::Int8Product{.x = pairs_of(x.codes_TD, false),
                                            .y = pairs_of(weight_ND.codes, true),
                                            .x_scales_M = x.scales_T.const_data_ptr<float>(),
                                            .y_scales_N = weight_ND.scales.const_data_ptr<float>(),
                                            .out = out_TN.mutable_data_ptr(),
                                            .out_stride = out_TN.stride(0),
                                            .rounds = out_TN.scalar_type() == at::kBFloat16});
}

#endif

void multiply_by_dots(const Int8Rows& x, const QuantizedMatrix& weight_ND, const at::Tensor& out_TN) {
  const int64_t rows_count = x.codes_TD.size(0), columns = weight_ND.columns;
  const auto* x_scales = x.scales_T.const_data_ptr<float>();
  const auto* weight_scales = weight_ND.scales.const_data_ptr<float>();
  const kernels::Rows out = rows(out_TN);
  const int64_t grain = std::max<int64_t>(1, kValuesPerTask / (columns * rows_count));
  at::parallel_for(0, weight_ND.rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int8_t* weight = codes_of(weight_ND.codes) + row * columns;
      for (int64_t t = 0; t < rows_count; ++t) {
        const int32_t sum = quant::dot_int8(codes_of(x.codes_TD) + t * columns, weight, columns);
        float buffer = 0;
        float* value = kernels::target(out, t * weight_ND.rows + row, &buffer);
        *value = static_cast<float>(sum) * x_scales[t] * weight_scales[row];
        kernels::write(value, out, t * weight_ND.rows + row, 1);
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

Int8Rows quantize_rows(const at::Tensor& x_TD) {
  return has_kernel(x_TD) && x_TD.is_cpu() ? quantize_rows_on_cpu(x_TD.contiguous()) : quantize_rows_by_operators(x_TD);
}

at::Tensor int8_product(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  const auto new_out = [&] {
    return at::empty({x.codes_TD.size(0), weight_ND.rows}, x.codes_TD.options().dtype(dtype));
  };
#ifdef FATHOM_AMX
  if (fits_tiles(x, weight_ND, dtype)) {
    at::Tensor out_TN = new_out();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::int8_product", traffic(x.codes_TD, weight_ND.codes, out_TN));
    multiply_in_tiles(x, weight_ND, out_TN);
    return out_TN;
  }
#endif
  if (x.codes_TD.is_cpu() && x.codes_TD.size(0) < kLeastTileRows && (dtype == at::kFloat || dtype == at::kBFloat16)) {
    at::Tensor out_TN = new_out();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::int8_product", traffic(x.codes_TD, weight_ND.codes, out_TN));
    multiply_by_dots(x, weight_ND, out_TN);
    return out_TN;
  }
  return multiply_by_operators(x, weight_ND, dtype);
}

}  // namespace fathom::ops
