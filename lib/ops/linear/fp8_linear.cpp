// By aten::_scaled_mm, which wants the first factor's rows and the second's columns to lie in one piece.
#include "ops/linear/fp8_linear.h"

#include <ATen/ATen.h>

#include <cstdint>

#include "ledger/ledger.h"
#include "ops/cuda_kernels.h"
#include "ops/traffic.h"
#include "quant/fp8.h"

namespace fathom::ops {
namespace {

// A matrix whose rows are those of W's columns, with scales of 1.
struct Turned {
  at::Tensor codes_DN, ones_1D;
};

Turned turned(const QuantizedMatrix& weight_ND) {
  const at::Tensor& codes_ND = weight_ND.codes;
  const CudaKernels* kernels = cuda_kernels_for(codes_ND.device(), at::kFloat);
  const auto of_scales = weight_ND.scales.options();
  const bool aligned = reinterpret_cast<uintptr_t>(codes_ND.const_data_ptr()) % quant::kFp8Sides == 0;
  if (kernels == nullptr || !aligned) return {codes_ND.t().contiguous(), at::ones({1, weight_ND.columns}, of_scales)};
  Turned made{at::empty({weight_ND.columns, weight_ND.rows}, codes_ND.options()),
              at::empty({1, weight_ND.columns}, of_scales)};
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::turn", traffic(codes_ND, made.codes_DN));
  check_launch("turn_bytes",
               kernels->turn_bytes(codes_ND.const_data_ptr(), made.codes_DN.data_ptr(), made.ones_1D.data_ptr<float>(),
                                   weight_ND.rows, weight_ND.columns, current_stream(codes_ND)));
  return made;
}

// x y^T; the rows of both times their scales.
at::Tensor multiply(const Fp8Rows& x, const at::Tensor& y_ND, const at::Tensor& scales_1N, at::ScalarType dtype) {
  if (x.codes_TD.is_cuda()) {
    return at::_scaled_mm(x.codes_TD, y_ND.t(), x.scales_T1, scales_1N, {}, {}, dtype, /*use_fast_accum=*/true);
  }
  const auto wide = [](const at::Tensor& codes) { return codes.to(at::kFloat); };
  return at::mm(wide(x.codes_TD), wide(y_ND).t()).mul_(x.scales_T1).mul_(scales_1N).to(dtype);
}

}  // namespace

QuantizedMatrix quantize_weight_to_fp8(const at::Tensor& weight_ND) {
  const ledger::ClaimScope copy_of_weight(memory::Component::kFunctionality);
  const Fp8Rows rows = quantize_rows_to_fp8(weight_ND.detach(), at::kFloat8_e4m3fn);
  QuantizedMatrix matrix;
  matrix.scheme = quant::Scheme::kFp8;
  matrix.rows = weight_ND.size(0);
  matrix.columns = weight_ND.size(1);
  matrix.codes = rows.codes_TD;
  matrix.scales = rows.scales_T1.view(-1);
  return matrix;
}

at::Tensor fp8_product(const Fp8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  return multiply(x, weight_ND.codes, weight_ND.scales.view({1, -1}), dtype);
}

at::Tensor fp8_gradient_of_input(const at::Tensor& grad_TN, const QuantizedMatrix& weight_ND) {
  const Fp8Rows grad = quantize_rows_to_fp8(grad_TN, at::kFloat8_e5m2, weight_ND.scales);
  const Turned weight = turned(weight_ND);
  return multiply(grad, weight.codes_DN, weight.ones_1D, grad_TN.scalar_type());
}

}  // namespace fathom::ops
