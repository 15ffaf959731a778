// Attention by its formula: groups of query heads are folded into queries of their key head.
#include "ops/attention/math_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "ops/attention/sinks.h"
#include "ops/given.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// In all of these: q_GNE: G groups of N = rep * S queries; k_GSE, v_GSE. Masked probabilities are 0, so the backward
// pass needs no mask. With sinks scores and probabilities have a column more, of a key without a value.

// Pairs that do not see each other: true.
at::Tensor hidden_pairs(int64_t length, int64_t window, const at::TensorOptions& options) {
  const at::Tensor pairs_SS = at::ones({length, length}, options.dtype(at::kBool));
  if (window == 0 || window >= length) return pairs_SS.triu_(1);
  return pairs_SS.tril_().triu_(1 - window).bitwise_not_();
}

// Scores before the softmax.
at::Tensor masked_scores(const at::Tensor& q_GNE, const at::Tensor& k_GSE, double scale, int64_t window) {
  const int64_t groups = q_GNE.size(0), length = k_GSE.size(1), repeats = q_GNE.size(1) / length;
  at::Tensor scores_GNS = at::bmm(q_GNE, k_GSE.transpose(1, 2)).mul_(scale);
  scores_GNS.view({groups, repeats, length, length})
      .masked_fill_(hidden_pairs(length, window, q_GNE.options()), -std::numeric_limits<double>::infinity());
  return scores_GNS;
}

// Scores with the sinks behind them, [G, N, S + 1]; G = B * K. Without sinks as they are.
at::Tensor with_sinks(at::Tensor scores_GNS, const std::optional<at::Tensor>& sinks_H, int64_t repeats) {
  if (!sinks_H) return scores_GNS;
  const int64_t groups = scores_GNS.size(0), queries = scores_GNS.size(1), key_heads = sinks_H->size(0) / repeats;
  const at::Tensor sinks_BKRS = sinks_H->to(scores_GNS.scalar_type())
                                    .view({1, key_heads, repeats, 1})
                                    .expand({groups / key_heads, key_heads, repeats, queries / repeats});
  return at::cat({std::exchange(scores_GNS, at::Tensor()), sinks_BKRS.reshape({groups, queries, 1})}, -1);
}

// The columns of keys.
at::Tensor of_keys(const at::Tensor& x_GNS, const at::Tensor& k_GSE) { return x_GNS.narrow(2, 0, k_GSE.size(1)); }

struct AttentionGradients {
  at::Tensor q_GNE, k_GSE, v_GSE;
  at::Tensor sinks_GN;  // of each query's sink; undefined without sinks
};

AttentionGradients gradients_of(const at::Tensor& grad_GNE, const at::Tensor& q_GNE, const at::Tensor& k_GSE,
                                const at::Tensor& v_GSE, const at::Tensor& p_GNS, double scale) {
  AttentionGradients made;
  made.v_GSE = at::bmm(of_keys(p_GNS, k_GSE).transpose(1, 2), grad_GNE);
  at::Tensor grad_GNS = at::bmm(grad_GNE, v_GSE.transpose(1, 2));
  const bool sinks = p_GNS.size(2) > k_GSE.size(1);
  if (sinks) grad_GNS = at::constant_pad_nd(grad_GNS, {0, 1});
  grad_GNS = at::_softmax_backward_data(grad_GNS, p_GNS, -1, p_GNS.scalar_type());
  made.q_GNE = at::bmm(of_keys(grad_GNS, k_GSE), k_GSE).mul_(scale);
  made.k_GSE = at::bmm(of_keys(grad_GNS, k_GSE).transpose(1, 2), q_GNE).mul_(scale);
  if (sinks) made.sinks_GN = grad_GNS.select(2, k_GSE.size(1));
  return made;
}

// [H] in FP32, of the gradients of each query's sink.
at::Tensor summed_over_queries(const at::Tensor& sinks_GN, int64_t heads, int64_t repeats) {
  const int64_t key_heads = heads / repeats;
  return sinks_GN.reshape({sinks_GN.size(0) / key_heads, key_heads, repeats, sinks_GN.size(1) / repeats})
      .sum(at::OptionalIntArrayRef({0, 3}), /*keepdim=*/false, at::kFloat)
      .view({heads});
}

struct MathAttention : torch::autograd::Function<MathAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_GNE, const at::Tensor& k_GSE,
                            const at::Tensor& v_GSE, const std::optional<at::Tensor>& sinks_H, int64_t window) {
    const int64_t repeats = q_GNE.size(1) / k_GSE.size(1);
    const at::Tensor p_GNS =
        at::_softmax(with_sinks(masked_scores(q_GNE, k_GSE, scale_of(q_GNE), window), sinks_H, repeats), -1, false);
    context->save_for_backward({q_GNE, k_GSE, v_GSE, p_GNS, sinks_H.value_or(at::Tensor())});
    return at::bmm(of_keys(p_GNS, k_GSE), v_GSE);
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    AttentionGradients made = gradients_of(gradients[0], saved[0], saved[1], saved[2], saved[3], scale_of(saved[0]));
    at::Tensor grad_sinks_H;
    if (saved[4].defined() && context->needs_input_grad(3)) {
      const int64_t repeats = saved[0].size(1) / saved[1].size(1);
      grad_sinks_H = summed_over_queries(made.sinks_GN, saved[4].size(0), repeats).to(saved[4].scalar_type());
    }
    return {std::move(made.q_GNE), std::move(made.k_GSE), std::move(made.v_GSE), grad_sinks_H, at::Tensor()};
  }
};

// One document of x_THE as the groups of `key_heads` key heads, [K, rep, S, E]: a view.
at::Tensor groups_of(const at::Tensor& x_THE, int64_t start, int64_t length, int64_t key_heads) {
  return x_THE.narrow(0, start, length).unflatten(1, {key_heads, -1}).permute({1, 2, 0, 3});
}
at::Tensor folded(const at::Tensor& x_GRSE) { return x_GRSE.reshape({x_GRSE.size(0), -1, x_GRSE.size(3)}); }

// The probabilities of each document in turn: [K, rep * S, S] for one of S tokens, with sinks [K, rep * S, S + 1].
class Probabilities {
 public:
  Probabilities(at::Tensor all, int64_t heads, int64_t key_heads, bool sinks)
      : all_(std::move(all)), heads_(heads), key_heads_(key_heads), sinks_(sinks ? 1 : 0) {}
  at::Tensor next(int64_t length) {
    const int64_t count = heads_ * length * (length + sinks_), first = std::exchange(used_, used_ + count);
    return all_.narrow(0, first, count).view({key_heads_, -1, length + sinks_});
  }
  static int64_t elements(const std::vector<int64_t>& lengths, int64_t heads, bool sinks) {
    int64_t count = 0;
    for (const int64_t length : lengths) count += heads * length * (length + (sinks ? 1 : 0));
    return count;
  }

 private:
  at::Tensor all_;
  int64_t heads_, key_heads_, sinks_, used_ = 0;
};

struct DocumentMathAttention : torch::autograd::Function<DocumentMathAttention> {
  // What is kept is taken at once, so that what the run takes does not depend on the order of its documents.
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_THE, const at::Tensor& k_TKE,
                            const at::Tensor& v_TKE, const std::optional<at::Tensor>& sinks_H,
                            const std::vector<int64_t>& lengths, int64_t window) {
    const int64_t heads = q_THE.size(1), key_heads = k_TKE.size(1);
    const bool sinks = sinks_H.has_value();
    at::Tensor out_THE = at::empty_like(q_THE);
    const at::Tensor all = at::empty({Probabilities::elements(lengths, heads, sinks)}, q_THE.options());
    Probabilities probabilities(all, heads, key_heads, sinks);
    int64_t start = 0;
    for (const int64_t length : lengths) {
      const auto view = [&](const at::Tensor& x_THE) { return groups_of(x_THE, start, length, key_heads); };
      at::Tensor p_GNS = probabilities.next(length);
      at::_softmax_out(p_GNS,
                       with_sinks(masked_scores(folded(view(q_THE)), view(k_TKE).squeeze(1), scale_of(q_THE), window),
                                  sinks_H, heads / key_heads),
                       -1, false);
      const at::Tensor out_GRSE = view(out_THE), v_GSE = view(v_TKE).squeeze(1);
      out_GRSE.copy_(at::bmm(of_keys(p_GNS, v_GSE), v_GSE).view(out_GRSE.sizes()));
      start += length;
    }
    context->save_for_backward({q_THE, k_TKE, v_TKE, all, sinks_H.value_or(at::Tensor())});
    context->saved_data["lengths"] = lengths;
    return out_THE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q_THE = saved[0], &k_TKE = saved[1], &v_TKE = saved[2];
    const int64_t key_heads = k_TKE.size(1), repeats = q_THE.size(1) / key_heads;
    variable_list made = {at::empty_like(q_THE), at::empty_like(k_TKE), at::empty_like(v_TKE), {}, {}, {}};
    Probabilities probabilities(saved[3], q_THE.size(1), key_heads, saved[4].defined());
    at::Tensor grad_sinks_H;  // a sum in FP32
    if (saved[4].defined() && context->needs_input_grad(3)) {
      grad_sinks_H = at::zeros(saved[4].sizes(), saved[4].options().dtype(at::kFloat));
    }
    int64_t start = 0;
    for (const int64_t length : context->saved_data["lengths"].toIntVector()) {
      const auto view = [&](const at::Tensor& x_THE) { return groups_of(x_THE, start, length, key_heads); };
      const auto write = [&](size_t i, const at::Tensor& x_GNE) {
        const at::Tensor out = view(made[i]);
        out.copy_(x_GNE.view(out.sizes()));
      };
      const AttentionGradients one =
          gradients_of(folded(view(gradients[0])), folded(view(q_THE)), view(k_TKE).squeeze(1), view(v_TKE).squeeze(1),
                       probabilities.next(length), scale_of(q_THE));
      write(0, one.q_GNE);
      write(1, one.k_GSE);
      write(2, one.v_GSE);
      if (grad_sinks_H.defined()) grad_sinks_H.add_(summed_over_queries(one.sinks_GN, q_THE.size(1), repeats));
      start += length;
    }
    if (grad_sinks_H.defined()) made[3] = grad_sinks_H.to(saved[4].scalar_type());
    return made;
  }
};

}  // namespace

at::Tensor math_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE, int64_t window,
                          const at::Tensor& sinks_H) {
  const int64_t rows = q_BHSE.size(0), heads = q_BHSE.size(1), length = q_BHSE.size(2), size = q_BHSE.size(3);
  const int64_t key_heads = k_BKSE.size(1), groups = rows * key_heads;
  const at::Tensor out_GNE = MathAttention::apply(q_BHSE.reshape({groups, heads / key_heads * length, size}),
                                                  k_BKSE.reshape({groups, length, size}),
                                                  v_BKSE.reshape({groups, length, size}), given(sinks_H), window);
  return out_GNE.view({rows, heads, length, size});
}

at::Tensor document_math_attention(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                                   const std::vector<int64_t>& document_lengths, int64_t window,
                                   const at::Tensor& sinks_H) {
  return DocumentMathAttention::apply(q_THE, k_TKE, v_TKE, given(sinks_H), document_lengths, window);
}

at::Tensor masked_math_attention(const at::Tensor& q_BHQE, const at::Tensor& k_BKCE, const at::Tensor& v_BKCE,
                                 const at::Tensor& mask_QC, const at::Tensor& sinks_H) {
  const int64_t rows = q_BHQE.size(0), heads = q_BHQE.size(1), queries = q_BHQE.size(2), size = q_BHQE.size(3);
  const int64_t key_heads = k_BKCE.size(1), keys = k_BKCE.size(2), groups = rows * key_heads;
  const at::Tensor q_GNE = q_BHQE.reshape({groups, -1, size}), k_GCE = k_BKCE.reshape({groups, keys, size}),
                   v_GCE = v_BKCE.reshape({groups, keys, size});
  at::Tensor scores_GNC = at::bmm(q_GNE, k_GCE.transpose(1, 2)).to(at::kFloat).mul_(scale_of(q_GNE));
  if (mask_QC.defined()) scores_GNC.view({groups, -1, queries, keys}).add_(mask_QC);
  const at::Tensor p_GNC =
      at::_softmax(with_sinks(std::move(scores_GNC), given(sinks_H), heads / key_heads), -1, false);
  return at::bmm(of_keys(p_GNC, k_GCE).to(v_GCE.scalar_type()), v_GCE).view({rows, heads, queries, size});
}

}  // namespace fathom::ops
