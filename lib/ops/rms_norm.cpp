// RMS normalisation: a kernel with its own backward pass on the CPU, LibTorch's fused one on CUDA.
#include "ops/rms_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

constexpr int64_t kElementsPerTask = 16384;

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x_TD,
                            const at::Tensor& weight_D, double eps, double offset, at::ScalarType out_dtype) {
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    at::Tensor out_TD = at::empty({tokens, width}, x_TD.options().dtype(out_dtype));
    at::Tensor rstd_T = at::empty({tokens}, x_TD.options().dtype(at::kFloat));
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::rms_norm", traffic(x_TD, weight_D, out_TD, rstd_T));
    if (x_TD.is_cpu()) {
      at::parallel_for(0, tokens, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
        cpu::rms_norm(rows(x_TD), rows(weight_D), offset, eps, rows(out_TD), rstd_T.data_ptr<float>(), first, last,
                      width);
      });
    }
    context->save_for_backward({x_TD, weight_D, rstd_T});
    context->saved_data["offset"] = offset;
    return out_TD;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x_TD = saved[0], &weight_D = saved[1], &rstd_T = saved[2];
    const at::Tensor grad_out_TD = gradients[0].contiguous();
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    at::Tensor grad_TD = at::empty_like(x_TD);
    at::Tensor grad_weight_D = context->needs_input_grad(1) ? at::empty_like(weight_D) : at::Tensor();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::rms_norm_backward", traffic(grad_out_TD, x_TD, weight_D, rstd_T, grad_TD));
    if (!x_TD.is_cpu()) return {grad_TD, grad_weight_D, {}, {}, {}};
    const double offset = context->saved_data["offset"].toDouble();

    // One partial sum for each share of the rows, added in order: the same result in every run with as many threads.
    const int64_t shares = std::min<int64_t>(at::get_num_threads(), tokens);
    std::vector<float> partial(grad_weight_D.defined() ? shares * width : 0);
    at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
      for (int64_t share = first; share < last; ++share) {
        float* sum = partial.empty() ? nullptr : partial.data() + share * width;
        cpu::rms_norm_backward(rows(grad_out_TD), rows(x_TD), rows(weight_D), offset, rstd_T.data_ptr<float>(),
                               rows(grad_TD), sum, tokens * share / shares, tokens * (share + 1) / shares, width);
      }
    });
    if (grad_weight_D.defined()) {
      for (int64_t share = 1; share < shares; ++share) {
        for (int64_t i = 0; i < width; ++i) partial[i] += partial[share * width + i];
      }
      cpu::convert({partial.data(), cpu::RowType::kF32}, rows(grad_weight_D), 0, width);
    }
    return {grad_TD, grad_weight_D, {}, {}, {}};
  }
};

at::Tensor added_to(const at::Tensor& weight_D, const NormSettings& settings) {
  return settings.offset == 0 ? weight_D : weight_D.to(at::kFloat) + settings.offset;
}

}  // namespace

at::Tensor rms_norm_reference(const at::Tensor& x_TD, const at::Tensor& weight_D, const NormSettings& settings,
                              at::ScalarType out_dtype) {
  const at::Tensor wide_TD = x_TD.to(at::kFloat);
  const at::Tensor squares_T1 = at::mean(wide_TD * wide_TD, at::OptionalIntArrayRef({-1}), true);
  return (wide_TD * at::rsqrt(squares_T1 + settings.eps) * added_to(weight_D, settings).to(at::kFloat)).to(out_dtype);
}

at::Tensor rms_norm(const at::Tensor& x_TD, const at::Tensor& weight_D, const NormSettings& settings,
                    at::ScalarType out_dtype) {
  if (has_kernel(x_TD) && has_kernel(weight_D) && has_kernel(out_dtype)) {
    return RmsNorm::apply(x_TD, weight_D, settings.eps, settings.offset, out_dtype);
  }
  if (x_TD.is_cuda()) {
    const at::Tensor like_x_D = added_to(weight_D, settings).to(x_TD.scalar_type());
    return std::get<0>(at::_fused_rms_norm(x_TD, {x_TD.size(1)}, like_x_D, settings.eps)).to(out_dtype);
  }
  return rms_norm_reference(x_TD, weight_D, settings, out_dtype);
}

}  // namespace fathom::ops
