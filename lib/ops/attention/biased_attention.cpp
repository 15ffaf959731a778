// Queries go in reverse: then query r and key j meet the bias r + j, so that a view of one row a head with overlapping
// strides is the bias of all pairs, and nothing of the size of the scores is made for it.
#include "ops/attention/biased_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <limits>

#include "ops/attention/attention_scores.h"
#include "ops/linear/matrix_product.h"
#include "ops/repeated_randomness.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct BiasedAttention : torch::autograd::Function<BiasedAttention> {
  struct Kept : torch::CustomClassHolder {
    Scores scores;  // but for the bias, which is a variable
    int64_t repeats = 1;
    double dropout = 0;
    std::optional<RandomPosition> random;
    bool needs_bias = false;

    Pairs pairs(const at::Tensor& q_GNE, const at::Tensor& k_GSE, const at::Tensor& v_GSE,
                const at::Tensor& by_distance_HN) const {
      Pairs pairs{q_GNE, k_GSE, v_GSE, scores, repeats};
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
    const Pairs pairs = kept->pairs(q_GNE, k_GSE, v_GSE, by_distance_HN);
    const auto stretches = score_stretches(pairs, false);
    at::Tensor out_GNE = at::empty_like(q_GNE);
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      pairs.stretch(out_GNE, first, count).copy_(ops::bmm(stretches->probabilities(first, count, dropout), v_GSE));
    }
    return out_GNE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    const Pairs pairs = kept->pairs(saved[0], saved[1], saved[2], saved[3]);
    const RepeatedRandomness random(pairs.q_GNE.device(), kept->random);
    const auto stretches = score_stretches(pairs, kept->needs_bias);
    ScoreStretches::Gradients made{at::empty_like(pairs.q_GNE), {}, {}};
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      stretches->back(first, count, kept->dropout, pairs.stretch(gradients[0], first, count), made);
    }
    const at::ScalarType type = pairs.q_GNE.scalar_type();
    return {made.q_GNE, made.k_GSE.take(type), made.v_GSE.take(type), stretches->gradient_of_bias(), at::Tensor()};
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
