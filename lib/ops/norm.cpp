// A kernel with its own backward pass, or on CUDA LibTorch's fused ones.
#include "ops/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/cuda_kernels.h"
#include "ops/given.h"
#include "ops/partial_sums.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::Rows rows_or_none(const at::Tensor& tensor) { return tensor.defined() ? rows(tensor) : cpu::Rows(); }
float* numbers_or_null(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

bool takes(const CudaKernels* kernels, const at::Tensor& x_TD, const at::Tensor& weight_D, at::ScalarType out_dtype) {
  const at::ScalarType type = x_TD.scalar_type(), of_weight = weight_D.scalar_type();
  return kernels != nullptr && takes_rows(x_TD) && takes_rows(weight_D) &&
         (of_weight == at::kFloat || of_weight == type) &&
         (out_dtype == type || (type == at::kFloat && out_dtype == at::kBFloat16));
}

// Of rows by their root mean square; null where there is none for them.
const CudaKernels* cuda_kernels_of(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                                   at::ScalarType out_dtype) {
  if (settings.centred || weights.bias_D.defined() || !weights.defined()) return nullptr;
  const CudaKernels* kernels = cuda_kernels_for(x_TD);
  return takes(kernels, x_TD, weights.weight_D, out_dtype) ? kernels : nullptr;
}

// On the CPU and the phantom device, or by fathom's CUDA kernels.
struct Norm : torch::autograd::Function<Norm> {
  // The rows normalised; `with_stream`: and the rows themselves.
  static variable_list forward(AutogradContext* context, const at::Tensor& x_TD,
                               const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias,
                               const NormSettings& settings, at::ScalarType out_dtype, bool with_stream) {
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    const at::Tensor weight_D = weight.value_or(at::Tensor()), bias_D = bias.value_or(at::Tensor());
    at::Tensor out_TD = at::empty({tokens, width}, x_TD.options().dtype(out_dtype));
    const auto number_a_row = [&] { return at::empty({tokens}, x_TD.options().dtype(at::kFloat)); };
    const at::Tensor rstd_T = number_a_row(), mean_T = settings.centred ? number_a_row() : at::Tensor();
    const cpu::Norm norm{rows_or_none(weight_D), rows_or_none(bias_D), settings.offset, settings.eps};
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::norm", traffic(x_TD, weight_D, out_TD, rstd_T));
    if (x_TD.is_cuda()) {
      check_launch("norm", cuda_kernels_for(x_TD)->norm(rows(x_TD), norm, rows(out_TD), rstd_T.data_ptr<float>(),
                                                        tokens, width, current_stream(x_TD)));
    } else if (x_TD.is_cpu()) {
      at::parallel_for(0, tokens, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
        cpu::norm(rows(x_TD), norm, rows(out_TD), numbers_or_null(mean_T), rstd_T.data_ptr<float>(), first, last,
                  width);
      });
    }
    context->set_materialize_grads(false);
    context->save_for_backward({x_TD, weight_D, bias_D, mean_T, rstd_T});
    context->saved_data["offset"] = settings.offset;
    return with_stream ? variable_list{out_TD, x_TD} : variable_list{out_TD};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x_TD = saved[0], &weight_D = saved[1], &bias_D = saved[2], &mean_T = saved[3], &rstd_T = saved[4];
    const at::Tensor grad_stream_TD = gradients.size() > 1 ? gradients[1] : at::Tensor();
    if (!gradients[0].defined()) return {grad_stream_TD, {}, {}, {}, {}, {}};
    const at::Tensor grad_out_TD = gradients[0].contiguous();
    const auto wanted = [&](size_t index, const at::Tensor& like) {
      return like.defined() && context->needs_input_grad(index) ? at::empty_like(like) : at::Tensor();
    };
    const at::Tensor grad_weight_D = wanted(1, weight_D), grad_bias_D = wanted(2, bias_D);
    const cpu::Norm norm{rows_or_none(weight_D), rows_or_none(bias_D), context->saved_data["offset"].toDouble()};
    if (x_TD.is_cuda()) {
      return {backward_on_cuda(grad_out_TD, x_TD, norm, rstd_T, grad_stream_TD, grad_weight_D),
              grad_weight_D,
              grad_bias_D,
              {},
              {},
              {}};
    }

    const at::Tensor grad_TD = at::empty_like(x_TD);
    variable_list made = {grad_TD, grad_weight_D, grad_bias_D, {}, {}, {}};
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::norm_backward", traffic(grad_out_TD, x_TD, weight_D, rstd_T, grad_TD));
    if (!x_TD.is_cpu()) return made;
    const int64_t shares = std::min<int64_t>(at::get_num_threads(), tokens);
    PartialSums of_weight(grad_weight_D.defined(), shares, width), of_bias(grad_bias_D.defined(), shares, width);
    at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
      for (int64_t share = first; share < last; ++share) {
        cpu::norm_backward(rows(grad_out_TD), rows(x_TD), norm, numbers_or_null(mean_T), rstd_T.data_ptr<float>(),
                           rows(grad_TD), of_weight.share(share), of_bias.share(share), tokens * share / shares,
                           tokens * (share + 1) / shares, width);
      }
    });
    of_weight.add_up_into(grad_weight_D);
    of_bias.add_up_into(grad_bias_D);
    return made;
  }

 private:
  // As the kernel reads it.
  static at::Tensor as_rows(const at::Tensor& gradient) {
    if (!gradient.defined()) return gradient;
    const at::Tensor contiguous = gradient.contiguous();
    return takes_rows(contiguous) ? contiguous : contiguous.clone();
  }

  static at::Tensor backward_on_cuda(const at::Tensor& grad_out, const at::Tensor& x_TD, const cpu::Norm& norm,
                                     const at::Tensor& rstd_T, const at::Tensor& grad_stream,
                                     const at::Tensor& grad_weight_D) {
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    const at::Tensor grad_out_TD = as_rows(grad_out), grad_stream_TD = as_rows(grad_stream);
    at::Tensor grad_TD = at::empty_like(x_TD), sums_SD;
    if (grad_weight_D.defined()) {
      sums_SD = at::empty({std::min(tokens, kNormSums), width}, x_TD.options().dtype(at::kFloat));
    }
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::norm_backward", grad_stream_TD.defined()
                                                               ? traffic(grad_out_TD, x_TD, grad_stream_TD, grad_TD)
                                                               : traffic(grad_out_TD, x_TD, grad_TD));
    check_launch("norm_backward", cuda_kernels_for(x_TD)->norm_backward(
                                      rows(grad_out_TD), rows(x_TD), norm, rstd_T.data_ptr<float>(),
                                      rows_or_none(grad_stream_TD), rows(grad_TD), rows_or_none(grad_weight_D),
                                      numbers_or_null(sums_SD), tokens, width, current_stream(x_TD)));
    return grad_TD;
  }
};

at::Tensor added_to(const at::Tensor& weight_D, const NormSettings& settings) {
  return settings.offset == 0 ? weight_D : weight_D.to(at::kFloat) + settings.offset;
}

at::Tensor on_cuda(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings) {
  const std::array<int64_t, 1> width = {x_TD.size(1)};
  if (!weights.defined()) return std::get<0>(at::_fused_rms_norm(x_TD, width, std::nullopt, settings.eps));
  const at::Tensor weight_D = added_to(weights.weight_D, settings).to(x_TD.scalar_type());
  if (!settings.centred) return std::get<0>(at::_fused_rms_norm(x_TD, width, weight_D, settings.eps));
  const auto bias_D = weights.bias_D.defined() ? std::optional(weights.bias_D.to(x_TD.scalar_type())) : std::nullopt;
  return std::get<0>(at::native_layer_norm(x_TD, width, weight_D, bias_D, settings.eps));
}

}  // namespace

at::Tensor norm_reference(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                          at::ScalarType out_dtype) {
  const auto mean = [](const at::Tensor& rows_TD) { return at::mean(rows_TD, at::OptionalIntArrayRef({-1}), true); };
  at::Tensor wide_TD = x_TD.to(at::kFloat);
  if (settings.centred) wide_TD = wide_TD - mean(wide_TD);
  at::Tensor normed_TD = wide_TD * at::rsqrt(mean(wide_TD * wide_TD) + settings.eps);
  if (!weights.defined()) return normed_TD.to(out_dtype);
  normed_TD = normed_TD * added_to(weights.weight_D, settings).to(at::kFloat);
  return (weights.bias_D.defined() ? normed_TD + weights.bias_D : normed_TD).to(out_dtype);
}

at::Tensor norm(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                at::ScalarType out_dtype) {
  const bool on_cpu = has_kernel(x_TD) && (!weights.defined() || has_kernel(weights.weight_D)) && has_kernel(out_dtype);
  if (on_cpu || cuda_kernels_of(x_TD, weights, settings, out_dtype) != nullptr) {
    return Norm::apply(x_TD, given(weights.weight_D), given(weights.bias_D), settings, out_dtype, /*with_stream=*/false)
        .front();
  }
  if (x_TD.is_cuda()) return on_cuda(x_TD, weights, settings).to(out_dtype);
  return norm_reference(x_TD, weights, settings, out_dtype);
}

NormedStream norm_of_stream(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                            at::ScalarType out_dtype) {
  const bool meets = at::GradMode::is_enabled() && x_TD.requires_grad() &&
                     cuda_kernels_of(x_TD, weights, settings, out_dtype) != nullptr;
  if (!meets) return {norm(x_TD, weights, settings, out_dtype), x_TD};
  variable_list both =
      Norm::apply(x_TD, given(weights.weight_D), std::nullopt, settings, out_dtype, /*with_stream=*/true);
  return {std::move(both[0]), std::move(both[1])};
}

}  // namespace fathom::ops
