// Queries go in reverse: then query r and key j meet the bias r + j, so that a view of one row a head with overlapping
// strides is the bias of all pairs, and nothing of the size of the scores is made for it.
#include "ops/biased_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "footprint/biased_attention.h"
#include "ops/dropout.h"
#include "ops/repeated_randomness.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// G = B * K groups of T queries in R heads each, N = T * R, and S keys.
struct Pairs {
  at::Tensor q_GNE, k_GSE;
  Scores scores;
  int64_t repeats = 1;  // R

  int64_t groups() const { return q_GNE.size(0); }
  int64_t queries() const { return q_GNE.size(1) / repeats; }
  int64_t keys() const { return k_GSE.size(1); }
  int64_t queries_at_once() const { return footprint::queries_at_once(groups() * repeats, queries(), keys()); }
  int64_t key_heads() const {
    if (scores.by_distance_HN.defined()) return scores.by_distance_HN.size(0) / repeats;
    return groups() / (scores.hidden_BS.defined() ? scores.hidden_BS.size(0) : groups());
  }
  // Of the queries [first, first + count), a view.
  at::Tensor stretch(const at::Tensor& x_GNE, int64_t first, int64_t count) const {
    return x_GNE.narrow(1, first * repeats, count * repeats);
  }

  // In FP32, of the queries [first, first + count). tanh_GMS: that of the scores, where they are capped and it is asked
  // for.
  at::Tensor probabilities(int64_t first, int64_t count, at::Tensor* tanh_GMS = nullptr) const {
    at::Tensor scores_GMS = at::bmm(stretch(q_GNE, first, count), k_GSE.transpose(1, 2)).to(at::kFloat);
    if (scores.softcap > 0) {
      scores_GMS.mul_(scores.scale / scores.softcap).tanh_();
      if (tanh_GMS != nullptr) *tanh_GMS = scores_GMS.clone();
      scores_GMS.mul_(scores.softcap);
    } else if (scores.scale != 1) {
      scores_GMS.mul_(scores.scale);
    }
    const at::Tensor scores_BKCRS = scores_GMS.view({-1, key_heads(), count, repeats, keys()});
    if (scores.by_distance_HN.defined()) scores_BKCRS.add_(bias(first, count));
    if (scores.hidden_BS.defined()) {
      scores_BKCRS.masked_fill_(scores.hidden_BS.view({-1, 1, 1, 1, keys()}), -std::numeric_limits<double>::infinity());
    }
    return at::_softmax(scores_GMS, -1, /*half_to_float=*/false);
  }

  // [K, count, R, S], a view.
  at::Tensor bias(int64_t first, int64_t count) const {
    const at::Tensor& bias_HN = scores.by_distance_HN;
    const int64_t row = bias_HN.stride(0);
    return bias_HN.as_strided({key_heads(), count, repeats, keys()}, {repeats * row, 1, row, 1},
                              bias_HN.storage_offset() + first);
  }

  // Adds the gradients of a stretch's scores, one head a group, to those of the bias, [H, N]: sums along diagonals,
  // which a wider row's end pushes into columns.
  void add_to_bias(const at::Tensor& grad_GCS, int64_t first, const at::Tensor& grad_HN) const {
    const at::Tensor grad_BHCS = grad_GCS.view({-1, key_heads(), grad_GCS.size(1), keys()});
    const int64_t count = grad_BHCS.size(2), wide = keys() + count;
    const at::Tensor padded_HCW = at::zeros({key_heads(), count, wide}, grad_BHCS.options());
    at::Tensor sums_HCS = padded_HCW.narrow(2, 0, keys());
    at::sum_out(sums_HCS, grad_BHCS, at::IntArrayRef({0}));
    grad_HN.narrow(1, first, wide - 1)
        .add_(padded_HCW.as_strided({key_heads(), count, wide - 1}, {count * wide, wide - 1, 1}).sum(1));
  }

  // Of the products, of the gradient of the scores that became probabilities.
  at::Tensor product_gradient(at::Tensor grad_GMS, const at::Tensor& tanh_GMS) const {
    if (tanh_GMS.defined()) at::tanh_backward_out(grad_GMS, grad_GMS, tanh_GMS);
    return scores.scale == 1 ? grad_GMS : grad_GMS.mul_(scores.scale);
  }
};

// The gradients of keys or values, to which every stretch of queries adds: several in FP32.
class StretchSum {
 public:
  void add(const at::Tensor& of_scores_GCS, const at::Tensor& of_queries_GCE) {
    at::Tensor product_GSE = at::bmm(of_scores_GCS.transpose(1, 2), of_queries_GCE);
    if (!sum_GSE_.defined()) {
      sum_GSE_ = std::move(product_GSE);
    } else {
      sum_GSE_ = sum_GSE_.to(at::kFloat).add_(product_GSE);
    }
  }
  at::Tensor take(at::ScalarType type) { return sum_GSE_.to(type); }

 private:
  at::Tensor sum_GSE_;
};

struct BiasedAttention : torch::autograd::Function<BiasedAttention> {
  struct Kept : torch::CustomClassHolder {
    Scores scores;  // but for the bias, which is a variable
    int64_t repeats = 1;
    double dropout = 0;
    std::optional<RandomPosition> random;
    bool needs_bias = false;

    Pairs pairs(const at::Tensor& q_GNE, const at::Tensor& k_GSE, const at::Tensor& by_distance_HN) const {
      Pairs pairs{q_GNE, k_GSE, scores, repeats};
      pairs.scores.by_distance_HN = by_distance_HN;
      return pairs;
    }
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_GNE, const at::Tensor& k_GSE,
                            const at::Tensor& v_GSE, const std::optional<at::Tensor>& bias_HN,
                            const c10::intrusive_ptr<Kept>& kept) {
    const double dropout = kept->dropout;
    if (dropout > 0) kept->random = RandomPosition::now(q_GNE.device());
    const at::Tensor by_distance_HN = bias_HN.value_or(at::Tensor());
    context->save_for_backward({q_GNE, k_GSE, v_GSE, by_distance_HN});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    const Pairs pairs = kept->pairs(q_GNE, k_GSE, by_distance_HN);
    at::Tensor out_GNE = at::empty_like(q_GNE);
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      const at::Tensor p_GMS = Dropout().draw(pairs.probabilities(first, count), dropout);
      pairs.stretch(out_GNE, first, count).copy_(at::bmm(p_GMS.to(v_GSE.scalar_type()), v_GSE));
    }
    return out_GNE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    const Pairs pairs = kept->pairs(saved[0], saved[1], saved[3]);
    const at::Tensor &grad_GNE = gradients[0], &v_GSE = saved[2];
    const at::ScalarType type = v_GSE.scalar_type();
    const RepeatedRandomness random(v_GSE.device(), kept->random);
    const at::Tensor grad_q_GNE = at::empty_like(pairs.q_GNE);
    StretchSum grad_k_GSE, grad_v_GSE;
    at::Tensor grad_HN;
    if (kept->needs_bias) grad_HN = at::zeros_like(pairs.scores.by_distance_HN);
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      const at::Tensor grad_GME = pairs.stretch(grad_GNE, first, count);
      at::Tensor tanh_GMS;
      const at::Tensor p_GMS = pairs.probabilities(first, count, &tanh_GMS);
      Dropout dropout;
      grad_v_GSE.add(dropout.draw(p_GMS, kept->dropout).to(type), grad_GME);
      at::Tensor grad_GMS = at::bmm(grad_GME, v_GSE.transpose(1, 2)).to(at::kFloat);
      grad_GMS = at::_softmax_backward_data(dropout.apply_to(std::move(grad_GMS)), p_GMS, -1, at::kFloat);
      if (grad_HN.defined()) pairs.add_to_bias(grad_GMS, first, grad_HN);
      const at::Tensor of_products_GMS = pairs.product_gradient(std::move(grad_GMS), tanh_GMS).to(type);
      pairs.stretch(grad_q_GNE, first, count).copy_(at::bmm(of_products_GMS, pairs.k_GSE));
      grad_k_GSE.add(of_products_GMS, pairs.stretch(pairs.q_GNE, first, count));
    }
    return {grad_q_GNE, grad_k_GSE.take(type), grad_v_GSE.take(type), grad_HN, at::Tensor()};
  }
};

// [B, S, K, E] as [B * K, S, E].
at::Tensor grouped(const at::Tensor& x_BSKE) {
  return x_BSKE.transpose(1, 2).reshape({-1, x_BSKE.size(1), x_BSKE.size(3)});
}

}  // namespace

at::Tensor biased_attention(const at::Tensor& q_BTHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                            const Scores& scores, double dropout) {
  const int64_t rows = q_BTHE.size(0), queries = q_BTHE.size(1), heads = q_BTHE.size(2), size = q_BTHE.size(3);
  const int64_t key_heads = k_BSKE.size(2), repeats = heads / key_heads;
  const std::optional<at::Tensor> by_distance_HN =
      scores.by_distance_HN.defined() ? std::optional(scores.by_distance_HN) : std::nullopt;
  const bool reverses = by_distance_HN && queries > 1;
  const auto kept = c10::make_intrusive<BiasedAttention::Kept>();
  kept->scores = scores;
  kept->scores.by_distance_HN.reset();
  kept->repeats = repeats;
  kept->dropout = dropout;
  kept->needs_bias = by_distance_HN && by_distance_HN->requires_grad();
  const at::Tensor in_order_BTHE = reverses ? q_BTHE.flip(1) : q_BTHE;
  const at::Tensor q_GNE = in_order_BTHE.unflatten(2, {key_heads, repeats})
                               .transpose(1, 2)
                               .reshape({rows * key_heads, queries * repeats, size});
  const at::Tensor out_GNE = BiasedAttention::apply(q_GNE, grouped(k_BSKE), grouped(v_BSKE), by_distance_HN, kept);
  const at::Tensor out_BTKRE = out_GNE.view({rows, key_heads, queries, repeats, size}).transpose(1, 2);
  // Heads of one number need no copy to lie side by side, and would be left as they lie.
  return (reverses ? out_BTKRE.flip(1) : out_BTKRE).reshape({rows, queries, heads * size}).contiguous();
}

at::Tensor causal_by_distance(int64_t heads, int64_t queries, int64_t keys, int64_t window, at::Device device) {
  const at::Tensor bias_1N = at::full({1, queries + keys - 1}, -std::numeric_limits<double>::infinity(),
                                      at::TensorOptions().device(device).dtype(at::kFloat));
  const int64_t seen = window > 0 ? std::min(window, keys) : keys;
  bias_1N.narrow(1, keys - seen, seen).zero_();
  return bias_1N.expand({heads, -1});
}

}  // namespace fathom::ops
