// One autograd node with two outputs, so that both gradients are at hand when it runs.
#include "ops/tied_embedding.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "footprint/tied_embedding_part.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor whole_gradient(const at::Tensor& gradient_TD, const at::Tensor& ids_T, int64_t vocabulary) {
  return at::embedding_dense_backward(gradient_TD, ids_T, vocabulary, /*padding_idx=*/-1, false);
}

// Rows [first, first + count) of the embedding's gradient. Other ids stand for the row behind the last, which is left
// out as padding is.
at::Tensor part_of_gradient(const at::Tensor& gradient_TD, const at::Tensor& ids_T, int64_t first, int64_t count) {
  const at::Tensor places_T = ids_T.sub(first).clamp_(-1, count).remainder_(count + 1);
  return at::embedding_dense_backward(gradient_TD, places_T, count + 1, /*padding_idx=*/count, false)
      .narrow(0, 0, count);
}

void add_gradient(const at::Tensor& sum_VD, const at::Tensor& gradient_TD, const at::Tensor& ids_T) {
  const int64_t vocabulary = sum_VD.size(0);
  const int64_t part = footprint::tied_part_rows(vocabulary, sum_VD.size(1) * sum_VD.element_size());
  if (part == vocabulary) {
    sum_VD.add_(whole_gradient(gradient_TD, ids_T, vocabulary));
    return;
  }
  if (sum_VD.is_cuda()) return add_rows_of_ids(sum_VD, gradient_TD, ids_T);
  for (int64_t first = 0; first < vocabulary; first += part) {
    const int64_t count = std::min(part, vocabulary - first);
    sum_VD.narrow(0, first, count).add_(part_of_gradient(gradient_TD, ids_T, first, count));
  }
}

struct EmbedTied : torch::autograd::Function<EmbedTied> {
  static variable_list forward(AutogradContext* context, const at::Tensor& weight_VD, const at::Tensor& ids_BS) {
    context->set_materialize_grads(false);
    const at::Tensor ids_T = ids_BS.reshape({-1});
    context->save_for_backward({ids_T});
    context->saved_data["vocabulary"] = weight_VD.size(0);
    return {at::embedding(weight_VD, ids_T), weight_VD.detach()};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const at::Tensor ids_T = context->get_saved_variables()[0];
    const at::Tensor &of_stream_TD = gradients[0], &of_head_VD = gradients[1];
    if (!of_stream_TD.defined()) return {of_head_VD, at::Tensor()};
    if (!of_head_VD.defined()) {
      return {whole_gradient(of_stream_TD, ids_T, context->saved_data["vocabulary"].toInt()), at::Tensor()};
    }
    add_gradient(of_head_VD, of_stream_TD, ids_T);
    return {of_head_VD, at::Tensor()};
  }
};

}  // namespace

void add_rows_of_ids(const at::Tensor& sum_VD, const at::Tensor& gradient_TD, const at::Tensor& ids_T) {
  const int64_t tokens = ids_T.numel(), most = std::min(tokens, sum_VD.size(0));
  at::Tensor places_T = at::empty_like(ids_T), ids_P = at::arange(most, ids_T.options());
  {
    const auto [sorted_T, order_T] = at::sort(ids_T, /*stable=*/true, /*dim=*/0, /*descending=*/false);
    at::Tensor rank_T = at::zeros_like(ids_T), begins_T = rank_T.narrow(0, 1, tokens - 1);
    at::ne_out(begins_T, sorted_T.narrow(0, 1, tokens - 1), sorted_T.narrow(0, 0, tokens - 1));
    rank_T.cumsum_(0);
    places_T.scatter_(0, order_T, rank_T);
    ids_P.scatter_(0, rank_T, sorted_T);
  }
  // Places behind the last have rows of zeros, and add them to rows of ids that are different from each other.
  sum_VD.index_add_(0, ids_P, whole_gradient(gradient_TD, places_T, most));
}

TiedEmbedding embed_tied(const at::Tensor& weight_VD, const at::Tensor& ids_BS) {
  const variable_list outputs = EmbedTied::apply(weight_VD, ids_BS);
  return {outputs[0], outputs[1]};
}

}  // namespace fathom::ops
