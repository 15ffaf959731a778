// Chunks of logits, made once for their values and once more for their gradients.
#include "ops/token_logprobs.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "footprint/loss_chunk.h"
#include "ops/cross_entropy.h"
#include "ops/head_gradient.h"
#include "ops/matrix_product.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What is done with a chunk of logits: its first row, and the rows of x that it was made of.
using WithLogits = std::function<void(int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD)>;

void for_each_chunk(const at::Tensor& x_ND, const at::Tensor& weight_VD, int64_t chunk, const WithLogits& with_logits) {
  const int64_t rows = x_ND.size(0);
  const at::Tensor buffer_CV = at::empty({chunk, weight_VD.size(0)}, x_ND.options());
  for (int64_t first = 0; first < rows; first += chunk) {
    const int64_t count = std::min(chunk, rows - first);
    const at::Tensor x_CD = x_ND.narrow(0, first, count);
    at::Tensor logits_CV = buffer_CV.narrow(0, 0, count);
    ops::mm_out(logits_CV, x_CD, weight_VD.t());
    with_logits(first, logits_CV, x_CD);
  }
}

struct TokenLogprobs : torch::autograd::Function<TokenLogprobs> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_ND, const at::Tensor& head_VD,
                            const at::Tensor& weight_VD, const at::Tensor& targets_N, int64_t chunk_rows) {
    const at::Tensor values_ND = x_ND.detach();
    const int64_t chunk =
        footprint::loss_chunk_rows(values_ND.size(0), chunk_rows, weight_VD.size(0), values_ND.element_size(),
                                   /*head_is_frozen=*/!head_VD.requires_grad(), values_ND.is_cuda());
    at::Tensor logprobs_N = at::empty(targets_N.sizes(), values_ND.options().dtype(at::kFloat));
    for_each_chunk(values_ND, weight_VD, chunk, [&](int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD) {
      const at::Tensor losses_C = row_cross_entropy(logits_CV, targets_N.narrow(0, first, x_CD.size(0)));
      logprobs_N.narrow(0, first, x_CD.size(0)).copy_(losses_C.neg_());
    });
    context->save_for_backward({values_ND, head_VD, weight_VD, targets_N});
    context->saved_data["chunk"] = chunk;
    return logprobs_N;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x_ND = saved[0], head_VD = saved[1].detach(), &weight_VD = saved[2], &targets_N = saved[3];
    const int64_t chunk = context->saved_data["chunk"].toInt();
    const at::Tensor of_losses_N = gradients[0].neg();
    at::Tensor of_x_ND;
    if (context->needs_input_grad(0)) of_x_ND = at::empty_like(x_ND);
    std::optional<HeadGradient> of_head;
    if (context->needs_input_grad(1)) of_head.emplace(head_VD, x_ND.scalar_type(), /*in_one=*/chunk == x_ND.size(0));
    for_each_chunk(x_ND, weight_VD, chunk, [&](int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD) {
      const int64_t count = x_CD.size(0);
      row_cross_entropy(logits_CV, targets_N.narrow(0, first, count), of_losses_N.narrow(0, first, count));
      if (of_head) of_head->add(logits_CV, x_CD);
      if (!of_x_ND.defined()) return;
      at::Tensor of_x_CD = of_x_ND.narrow(0, first, count);
      ops::mm_out(of_x_CD, logits_CV, weight_VD);
    });
    return {of_x_ND, of_head ? of_head->take() : at::Tensor(), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor token_logprobs(const at::Tensor& x_ND, const at::Tensor& head_VD, const at::Tensor& head_copy_VD,
                          const at::Tensor& targets_N, int64_t chunk_rows) {
  return TokenLogprobs::apply(x_ND, head_VD, head_copy_VD.detach(), targets_N, chunk_rows);
}

}  // namespace fathom::ops
