// Chunks of logits that become their own gradient and are multiplied into those of the head and of its input at once.
#include "ops/head_loss.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "footprint/loss_chunk.h"
#include "ops/cross_entropy.h"
#include "ops/head_gradient.h"
#include "ops/linear/matrix_product.h"
#include "ops/softcap.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// index_select's own backward pass adds rows one by one; these are all different.
struct GatherRows : torch::autograd::Function<GatherRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_TD, const at::Tensor& rows_N) {
    context->save_for_backward({rows_N});
    context->saved_data["tokens"] = x_TD.size(0);
    return x_TD.index_select(0, rows_N);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor& gradient_ND = gradients[0];
    const int64_t tokens = context->saved_data["tokens"].toInt();
    const at::Tensor gradient_TD = at::zeros({tokens, gradient_ND.size(1)}, gradient_ND.options());
    return {gradient_TD.index_copy_(0, context->get_saved_variables()[0], gradient_ND), at::Tensor()};
  }
};

// What the operator is asked for beside its tensors.
struct Request {
  double denominator, gradient_scale, softcap;
  int64_t chunk_rows, spare_bytes;
  bool needs_x, needs_head;  // gradients
  bool unscaled;
};

constexpr const char* kOfInput = "gradient of the input";
constexpr const char* kOfHead = "gradient of the head";
constexpr const char* kUnscaled = "unscaled";

struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_ND, const at::Tensor& head_VD,
                            const at::Tensor& weight_VD, const at::Tensor& targets_N, const Request& request) {
    const at::Tensor values_ND = x_ND.detach();
    const int64_t rows = values_ND.size(0);
    const int64_t chunk =
        footprint::loss_chunk_rows(rows, request.chunk_rows, weight_VD.size(0), values_ND.element_size(),
                                   !request.needs_head, values_ND.is_cuda(), request.spare_bytes);
    at::Tensor loss = at::zeros({}, values_ND.options().dtype(at::kFloat));
    std::optional<HeadGradient> of_head;
    if (request.needs_head) of_head.emplace(head_VD, values_ND.scalar_type(), /*in_one=*/chunk == rows);
    at::Tensor buffer_CV = at::empty({chunk, weight_VD.size(0)}, values_ND.options());
    std::optional<Softcap> softcap(std::in_place, request.softcap, buffer_CV, request.needs_x || request.needs_head);
    for (int64_t first = 0; first < rows; first += chunk) {
      const int64_t count = std::min(chunk, rows - first);
      at::Tensor x_CD = values_ND.narrow(0, first, count), logits_CV = buffer_CV.narrow(0, 0, count);
      ops::mm_out(logits_CV, x_CD, weight_VD.t());
      softcap->apply(logits_CV);
      add_cross_entropy(loss, logits_CV, targets_N.narrow(0, first, count), request.denominator,
                        request.needs_x || request.needs_head ? request.gradient_scale : 0);
      softcap->back(logits_CV);
      if (of_head) of_head->add(logits_CV, x_CD);
      if (request.needs_x) ops::mm_out(x_CD, logits_CV, weight_VD);  // nobody reads these rows any more
    }
    buffer_CV.reset();
    softcap.reset();
    // Not saved as variables are, which would keep what autograd shall take over.
    context->saved_data[kUnscaled] = request.unscaled;
    if (request.needs_x) context->saved_data[kOfInput] = values_ND;
    if (of_head) context->saved_data[kOfHead] = of_head->take();
    return loss;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const bool unscaled = context->saved_data[kUnscaled].toBool();
    const auto hand_over = [&](const char* name) {
      if (context->saved_data.count(name) == 0) return at::Tensor();
      at::Tensor gradient = std::move(context->saved_data[name]).toTensor();
      // The upstream gradient is 1 unless somebody scaled the loss; asking costs a synchronisation on CUDA.
      const at::Tensor& upstream = gradients[0];
      const bool is_one = upstream.is_privateuseone() || (upstream.is_cpu() && *upstream.data_ptr<float>() == 1.0f);
      TORCH_CHECK(is_one || !upstream.is_cpu() || !unscaled, "a loss that nobody would scale was scaled");
      return is_one || unscaled ? gradient : gradient.mul_(upstream);
    };
    return {hand_over(kOfInput), hand_over(kOfHead), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor gather_rows(const at::Tensor& x_TD, const at::Tensor& rows_N) { return GatherRows::apply(x_TD, rows_N); }

at::Tensor head_loss(at::Tensor x_TD, const at::Tensor& head_VD, const at::Tensor& head_copy_VD,
                     const LossTargets& targets) {
  const bool gradients = at::GradMode::is_enabled();
  const Request request{targets.denominator,
                        targets.gradient_scale,
                        targets.softcap,
                        targets.chunk_rows,
                        targets.spare_bytes,
                        gradients && x_TD.requires_grad(),
                        gradients && head_VD.requires_grad(),
                        targets.unscaled};
  if (targets.rows_N.defined()) x_TD = gather_rows(x_TD, targets.rows_N);
  return HeadLoss::apply(x_TD, head_VD, head_copy_VD.detach(), targets.targets_N, request);
}

}  // namespace fathom::ops
