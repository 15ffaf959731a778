// A kernel with its own backward pass on the CPU, LibTorch's fused ones on CUDA.
#include "ops/norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

cpu::Rows rows_or_none(const at::Tensor& tensor) { return tensor.defined() ? rows(tensor) : cpu::Rows(); }
float* numbers_or_null(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

// One partial sum for each share of the rows, added in order: the same result in every run with as many threads.
class PartialSums {
 public:
  PartialSums(bool wanted, int64_t shares, int64_t width) : width_(width), sums_(wanted ? shares * width : 0) {}
  float* share(int64_t index) { return sums_.empty() ? nullptr : sums_.data() + index * width_; }
  void add_up_into(const at::Tensor& sum_D) {
    if (sums_.empty()) return;
    for (size_t i = static_cast<size_t>(width_); i < sums_.size(); ++i) sums_[i % width_] += sums_[i];
    cpu::convert({sums_.data(), cpu::RowType::kF32}, rows(sum_D), 0, width_);
  }

 private:
  int64_t width_;
  std::vector<float> sums_;
};

struct Norm : torch::autograd::Function<Norm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TD, const at::Tensor& weight_D,
                            const std::optional<at::Tensor>& bias, const NormSettings& settings,
                            at::ScalarType out_dtype) {
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    const at::Tensor bias_D = bias.value_or(at::Tensor());
    at::Tensor out_TD = at::empty({tokens, width}, x_TD.options().dtype(out_dtype));
    const auto number_a_row = [&] { return at::empty({tokens}, x_TD.options().dtype(at::kFloat)); };
    const at::Tensor rstd_T = number_a_row(), mean_T = settings.centred ? number_a_row() : at::Tensor();
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::norm", traffic(x_TD, weight_D, out_TD, rstd_T));
    if (x_TD.is_cpu()) {
      const cpu::Norm norm{rows(weight_D), rows_or_none(bias_D), settings.offset, settings.eps};
      at::parallel_for(0, tokens, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
        cpu::norm(rows(x_TD), norm, rows(out_TD), numbers_or_null(mean_T), rstd_T.data_ptr<float>(), first, last,
                  width);
      });
    }
    context->save_for_backward({x_TD, weight_D, bias_D, mean_T, rstd_T});
    context->saved_data["offset"] = settings.offset;
    return out_TD;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x_TD = saved[0], &weight_D = saved[1], &bias_D = saved[2], &mean_T = saved[3], &rstd_T = saved[4];
    const at::Tensor grad_out_TD = gradients[0].contiguous();
    const int64_t tokens = x_TD.size(0), width = x_TD.size(1);
    at::Tensor grad_TD = at::empty_like(x_TD);
    const auto wanted = [&](size_t index, const at::Tensor& like) {
      return like.defined() && context->needs_input_grad(index) ? at::empty_like(like) : at::Tensor();
    };
    const at::Tensor grad_weight_D = wanted(1, weight_D), grad_bias_D = wanted(2, bias_D);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::norm_backward", traffic(grad_out_TD, x_TD, weight_D, rstd_T, grad_TD));
    if (!x_TD.is_cpu()) return {grad_TD, grad_weight_D, grad_bias_D, {}, {}};

    const cpu::Norm norm{rows(weight_D), rows_or_none(bias_D), context->saved_data["offset"].toDouble()};
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
    return {grad_TD, grad_weight_D, grad_bias_D, {}, {}};
  }
};

at::Tensor added_to(const at::Tensor& weight_D, const NormSettings& settings) {
  return settings.offset == 0 ? weight_D : weight_D.to(at::kFloat) + settings.offset;
}

at::Tensor on_cuda(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings) {
  const std::array<int64_t, 1> width = {x_TD.size(1)};
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
  const at::Tensor normed_TD =
      wide_TD * at::rsqrt(mean(wide_TD * wide_TD) + settings.eps) * added_to(weights.weight_D, settings).to(at::kFloat);
  return (weights.bias_D.defined() ? normed_TD + weights.bias_D : normed_TD).to(out_dtype);
}

at::Tensor norm(const at::Tensor& x_TD, const NormWeights& weights, const NormSettings& settings,
                at::ScalarType out_dtype) {
  if (has_kernel(x_TD) && has_kernel(weights.weight_D) && has_kernel(out_dtype)) {
    const auto bias_D = weights.bias_D.defined() ? std::optional(weights.bias_D) : std::nullopt;
    return Norm::apply(x_TD, weights.weight_D, bias_D, settings, out_dtype);
  }
  if (x_TD.is_cuda()) return on_cuda(x_TD, weights, settings).to(out_dtype);
  return norm_reference(x_TD, weights, settings, out_dtype);
}

}  // namespace fathom::ops
