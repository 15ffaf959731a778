// A kernel that makes B * x and its convolution again in the backward pass, or ATen's operators where there is none.
#include "ops/short_convolution.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/rows.h"
#include "ops/text_convolution.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Views.
struct Parts {
  explicit Parts(const at::Tensor& parts_TD) {
    const int64_t width = parts_TD.size(1) / 3;
    b_TD = parts_TD.narrow(1, 0, width), c_TD = parts_TD.narrow(1, width, width);
    x_TD = parts_TD.narrow(1, 2 * width, width);
  }
  at::Tensor b_TD, c_TD, x_TD;
};

at::Tensor by_operators(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, const Texts& texts) {
  const Parts parts(parts_TD);
  return convolved(parts.b_TD * parts.x_TD, taps_DJ, texts).mul_(parts.c_TD);
}

struct ConvolutionGradients {
  at::Tensor parts_TD, taps_DJ;
};

void backward_by_operators(const at::Tensor& grad_TD, const at::Tensor& parts_TD, const at::Tensor& taps_DJ,
                           const Texts& texts, const ConvolutionGradients& made) {
  const Parts parts(parts_TD);
  Parts grads(made.parts_TD);
  at::Tensor product_TD = parts.b_TD * parts.x_TD;
  at::mul_out(grads.c_TD, grad_TD, convolved(product_TD, taps_DJ, texts));
  const at::Tensor of_sum_TD = grad_TD * parts.c_TD;
  if (made.taps_DJ.defined()) gradient_of_taps(of_sum_TD, product_TD, texts, made.taps_DJ);
  product_TD.reset();
  const at::Tensor of_product_TD = convolved(of_sum_TD, taps_DJ, texts, /*backward=*/true);
  at::mul_out(grads.b_TD, of_product_TD, parts.x_TD);
  at::mul_out(grads.x_TD, of_product_TD, parts.b_TD);
}

struct GatedConvolution : torch::autograd::Function<GatedConvolution> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& parts_TD, const at::Tensor& taps_DJ,
                            const std::optional<at::Tensor>& positions, int64_t length) {
    const at::Tensor positions_T = positions.value_or(at::Tensor());
    context->save_for_backward({parts_TD, taps_DJ, positions_T});
    context->saved_data["length"] = length;
    const Texts texts{positions_T, length};
    if (!has_kernel(parts_TD) || !has_kernel(taps_DJ)) return by_operators(parts_TD, taps_DJ, texts);
    const int64_t tokens = parts_TD.size(0), width = taps_DJ.size(0);
    at::Tensor out_TD = at::empty({tokens, width}, parts_TD.options());
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_convolution", traffic(parts_TD, taps_DJ, out_TD));
    if (parts_TD.is_cpu()) {
      at::parallel_for(0, tokens, std::max<int64_t>(1, kElementsPerTask / width), [&](int64_t first, int64_t last) {
        cpu::short_convolution(rows(parts_TD), {rows(taps_DJ), taps_DJ.size(1)}, texts.on_cpu(), rows(out_TD), first,
                               last, width);
      });
    }
    return out_TD;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &parts_TD = saved[0], &taps_DJ = saved[1];
    const Texts texts{saved[2], context->saved_data["length"].toInt()};
    const at::Tensor grad_TD = gradients[0].contiguous();
    const ConvolutionGradients made{at::empty_like(parts_TD),
                                    context->needs_input_grad(1) ? at::empty_like(taps_DJ) : at::Tensor()};
    if (has_kernel(parts_TD) && has_kernel(taps_DJ)) {
      backward_by_kernel(grad_TD, parts_TD, taps_DJ, texts, made);
    } else {
      backward_by_operators(grad_TD, parts_TD, taps_DJ, texts, made);
    }
    return {made.parts_TD, made.taps_DJ, at::Tensor(), at::Tensor()};
  }

 private:
  // Threads have columns, so that the sums over rows are the same however many there are.
  static void backward_by_kernel(const at::Tensor& grad_TD, const at::Tensor& parts_TD, const at::Tensor& taps_DJ,
                                 const Texts& texts, const ConvolutionGradients& made) {
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::gated_convolution_backward",
                                  traffic(grad_TD, parts_TD, taps_DJ, made.parts_TD));
    if (!parts_TD.is_cpu()) return;
    const int64_t tokens = parts_TD.size(0), width = taps_DJ.size(0);
    std::vector<float> of_taps(made.taps_DJ.defined() ? static_cast<size_t>(taps_DJ.numel()) : 0);
    float* sums = of_taps.empty() ? nullptr : of_taps.data();
    at::parallel_for(0, width, std::max<int64_t>(1, kElementsPerTask / tokens), [&](int64_t first, int64_t last) {
      cpu::short_convolution_backward(rows(grad_TD), rows(parts_TD), {rows(taps_DJ), taps_DJ.size(1)}, texts.on_cpu(),
                                      rows(made.parts_TD), sums, tokens, first, last, width);
    });
    if (sums != nullptr) cpu::convert({sums, cpu::RowType::kF32}, rows(made.taps_DJ), 0, taps_DJ.numel());
  }
};

}  // namespace

at::Tensor gated_convolution(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, int64_t length,
                             const Documents* documents) {
  return GatedConvolution::apply(parts_TD, taps_DJ,
                                 documents != nullptr ? std::optional(documents->positions_T) : std::nullopt, length);
}

at::Tensor convolved_after(const at::Tensor& parts_TD, const at::Tensor& taps_DJ, const at::Tensor& last_BSD,
                           bool first) {
  const Parts parts(parts_TD);
  const int64_t batch = last_BSD.size(0), before = last_BSD.size(1), length = parts_TD.size(0) / batch;
  const auto of_rows = [&](const at::Tensor& x_TD) { return x_TD.unflatten(0, {batch, length}); };
  if (first) {
    const int64_t count = std::min(before, length);
    at::Tensor new_BSD = last_BSD.zero_().narrow(1, before - count, count);
    const auto newest = [&](const at::Tensor& x_TD) { return of_rows(x_TD).narrow(1, length - count, count); };
    at::mul_out(new_BSD, newest(parts.b_TD), newest(parts.x_TD));
    return gated_convolution(parts_TD, taps_DJ, length, nullptr);
  }
  const at::Tensor all_BSD = at::cat({last_BSD, of_rows(parts.b_TD * parts.x_TD)}, 1);
  last_BSD.copy_(all_BSD.narrow(1, length, before));
  const at::Tensor sums_BSD =
      convolved(all_BSD.flatten(0, 1), taps_DJ, {{}, before + length}).view(all_BSD.sizes()).narrow(1, before, length);
  return (sums_BSD * of_rows(parts.c_TD)).flatten(0, 1);
}

}  // namespace fathom::ops
