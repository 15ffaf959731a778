// One pass over the rows by a kernel, or ATen's operators.
#include "ops/quantized/fp8_rows.h"

#include <ATen/ATen.h>

#include "ops/cuda_kernels.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/fp8.h"

namespace fathom::ops {
namespace {

static_assert(kWidestRow == quant::kWidestFp8Row);

Fp8Rows by_operators(const at::Tensor& x_TD, at::ScalarType format, const at::Tensor& columns_D) {
  const float most = format == at::kFloat8_e4m3fn ? quant::kLargestFp8Code : quant::kLargestE5m2Code;
  at::Tensor wide_TD = x_TD.to(at::kFloat);
  if (columns_D.defined()) wide_TD = wide_TD * columns_D;
  const at::Tensor largest_T1 = wide_TD.abs().amax(1, /*keepdim=*/true);
  const at::Tensor scaled_TD = (wide_TD * (most / largest_T1.clamp_min(kLeastFp8Row))).clamp_(-most, most);
  return {scaled_TD.to(format), largest_T1 / most};
}

}  // namespace

Fp8Rows quantize_rows_to_fp8(const at::Tensor& x_TD, at::ScalarType format, const at::Tensor& columns_D) {
  const CudaKernels* kernels = cuda_kernels_for(x_TD);
  const bool takes = kernels != nullptr && takes_rows(x_TD) && (!columns_D.defined() || takes_rows(columns_D));
  if (!takes) return by_operators(x_TD, format, columns_D);
  Fp8Rows made{at::empty(x_TD.sizes(), x_TD.options().dtype(format)),
               at::empty({x_TD.size(0), 1}, x_TD.options().dtype(at::kFloat))};
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::quantize_rows", traffic(x_TD, made.codes_TD, made.scales_T1));
  check_launch(
      "fp8_rows",
      kernels->fp8_rows(rows(x_TD), columns_D.defined() ? columns_D.const_data_ptr<float>() : nullptr,
                        format == at::kFloat8_e4m3fn ? Fp8Format::kE4m3 : Fp8Format::kE5m2, made.codes_TD.data_ptr(),
                        made.scales_T1.data_ptr<float>(), x_TD.size(0), x_TD.size(1), current_stream(x_TD)));
  return made;
}

}  // namespace fathom::ops
