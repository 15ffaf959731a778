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
#include "ops/linear/matrix_product.h"
#include "ops/softcap.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What is done with a chunk of logits: its first row, the rows of x that it was made of, and what capped it.
using WithLogits =
    std::function<void(int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD, const Softcap& softcap)>;

struct LogitChunks {
  int64_t rows;  // of each but the last
  double softcap;
  bool gradients;
};

void for_each_chunk(const at::Tensor& x_ND, const at::Tensor& weight_VD, const LogitChunks& chunks,
                    const WithLogits& with_logits) {
  const int64_t rows = x_ND.size(0);
  const at::Tensor buffer_CV = at::empty({chunks.rows, weight_VD.size(0)}, x_ND.options());
  Softcap softcap(chunks.softcap, buffer_CV, chunks.gradients);
  for (int64_t first = 0; first < rows; first += chunks.rows) {
    const int64_t count = std::min(chunks.rows, rows - first);
    const at::Tensor x_CD = x_ND.narrow(0, first, count);
    at::Tensor logits_CV = buffer_CV.narrow(0, 0, count);
    ops::mm_out(logits_CV, x_CD, weight_VD.t());
    softcap.apply(logits_CV);
    with_logits(first, logits_CV, x_CD, softcap);
  }
}

struct TokenLogprobs : torch::autograd::Function<TokenLogprobs> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x_ND, const at::Tensor& head_VD,
                            const at::Tensor& weight_VD, const at::Tensor& targets_N, int64_t chunk_rows,
                            double softcap) {
    const at::Tensor values_ND = x_ND.detach();
    const int64_t chunk =
        footprint::loss_chunk_rows(values_ND.size(0), chunk_rows, weight_VD.size(0), values_ND.element_size(),
                                   /*head_is_frozen=*/!head_VD.requires_grad(), values_ND.is_cuda());
    at::Tensor logprobs_N = at::empty(targets_N.sizes(), values_ND.options().dtype(at::kFloat));
    for_each_chunk(values_ND, weight_VD, {chunk, softcap, /*gradients=*/false},
                   [&](int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD, const Softcap&) {
                     const at::Tensor losses_C = row_cross_entropy(logits_CV, targets_N.narrow(0, first, x_CD.size(0)));
                     logprobs_N.narrow(0, first, x_CD.size(0)).copy_(losses_C.neg_());
                   });
    context->save_for_backward({values_ND, head_VD, weight_VD, targets_N});
    context->saved_data["chunk"] = chunk;
    context->saved_data["softcap"] = softcap;
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
    const LogitChunks chunks{chunk, context->saved_data["softcap"].toDouble(), /*gradients=*/true};
    for_each_chunk(x_ND, weight_VD, chunks,
                   [&](int64_t first, at::Tensor& logits_CV, const at::Tensor& x_CD, const Softcap& softcap) {
                     const int64_t count = x_CD.size(0);
                     row_cross_entropy(logits_CV, targets_N.narrow(0, first, count),
                                       of_losses_N.narrow(0, first, count));
                     softcap.back(logits_CV);
                     if (of_head) of_head->add(logits_CV, x_CD);
                     if (!of_x_ND.defined()) return;
                     at::Tensor of_x_CD = of_x_ND.narrow(0, first, count);
                     ops::mm_out(of_x_CD, logits_CV, weight_VD);
                   });
    return {of_x_ND, of_head ? of_head->take() : at::Tensor(), {}, {}, {}, {}};
  }
};

struct SequenceSums : torch::autograd::Function<SequenceSums> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& values_N, const at::Tensor& rows_N,
                            int64_t sequences, int64_t length) {
    context->save_for_backward({rows_N});
    context->saved_data["sequences"] = sequences;
    context->saved_data["length"] = length;
    const at::Tensor values_T = at::zeros({sequences * length}, values_N.options());
    return values_T.index_copy_(0, rows_N, values_N.detach()).view({sequences, length}).sum(1);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const int64_t sequences = context->saved_data["sequences"].toInt(), length = context->saved_data["length"].toInt();
    const at::Tensor of_tokens_T = gradients[0].unsqueeze(1).expand({sequences, length}).contiguous().view({-1});
    return {of_tokens_T.index_select(0, context->get_saved_variables()[0]), {}, {}, {}};
  }
};

}  // namespace

at::Tensor sequence_sums(const at::Tensor& values_N, const at::Tensor& rows_N, int64_t sequences, int64_t length) {
  if (!rows_N.defined()) return values_N.view({sequences, length}).sum(1);
  return SequenceSums::apply(values_N, rows_N, sequences, length);
}

at::Tensor token_logprobs(const at::Tensor& x_ND, const at::Tensor& head_VD, const at::Tensor& head_copy_VD,
                          const at::Tensor& targets_N, int64_t chunk_rows, double softcap) {
  return TokenLogprobs::apply(x_ND, head_VD, head_copy_VD.detach(), targets_N, chunk_rows, softcap);
}

}  // namespace fathom::ops
