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

// G = B * H groups of T queries and S keys.
struct Pairs {
  at::Tensor q_GTE, k_GSE, by_distance_HN, hidden_BS;

  int64_t groups() const { return q_GTE.size(0); }
  int64_t queries() const { return q_GTE.size(1); }
  int64_t keys() const { return k_GSE.size(1); }
  int64_t queries_at_once() const { return footprint::queries_at_once(groups(), queries(), keys()); }
  int64_t heads() const {
    return by_distance_HN.defined() ? by_distance_HN.size(0)
                                    : groups() / (hidden_BS.defined() ? hidden_BS.size(0) : groups());
  }

  // In FP32, of the queries [first, first + count).
  at::Tensor probabilities(int64_t first, int64_t count) const {
    at::Tensor scores_GCS = at::bmm(q_GTE.narrow(1, first, count), k_GSE.transpose(1, 2)).to(at::kFloat);
    const at::Tensor scores_BHCS = scores_GCS.view({-1, heads(), count, keys()});
    if (by_distance_HN.defined()) scores_BHCS.add_(bias(first, count));
    if (hidden_BS.defined()) {
      scores_BHCS.masked_fill_(hidden_BS.view({-1, 1, 1, keys()}), -std::numeric_limits<double>::infinity());
    }
    return at::_softmax(scores_GCS, -1, /*half_to_float=*/false);
  }

  // [H, count, S], a view.
  at::Tensor bias(int64_t first, int64_t count) const {
    const int64_t row = by_distance_HN.size(1);
    return by_distance_HN.as_strided({heads(), count, keys()}, {row, 1, 1}, by_distance_HN.storage_offset() + first);
  }

  // Adds the gradients of a stretch's scores to those of the bias, [H, N]: sums along diagonals, which a wider row's
  // end pushes into columns.
  void add_to_bias(const at::Tensor& grad_BHCS, int64_t first, const at::Tensor& grad_HN) const {
    const int64_t count = grad_BHCS.size(2), wide = keys() + count;
    const at::Tensor padded_HCW = at::zeros({heads(), count, wide}, grad_BHCS.options());
    at::Tensor sums_HCS = padded_HCW.narrow(2, 0, keys());
    at::sum_out(sums_HCS, grad_BHCS, at::IntArrayRef({0}));
    grad_HN.narrow(1, first, wide - 1)
        .add_(padded_HCW.as_strided({heads(), count, wide - 1}, {count * wide, wide - 1, 1}).sum(1));
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
    at::Tensor hidden_BS;
    double dropout = 0;
    std::optional<RandomPosition> random;
    bool needs_bias = false;
  };

  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_GTE, const at::Tensor& k_GSE,
                            const at::Tensor& v_GSE, const std::optional<at::Tensor>& bias_HN,
                            const c10::intrusive_ptr<Kept>& kept) {
    const double dropout = kept->dropout;
    if (dropout > 0) kept->random = RandomPosition::now(q_GTE.device());
    const at::Tensor by_distance_HN = bias_HN.value_or(at::Tensor());
    context->save_for_backward({q_GTE, k_GSE, v_GSE, by_distance_HN});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    const Pairs pairs{q_GTE, k_GSE, by_distance_HN, kept->hidden_BS};
    at::Tensor out_GTE = at::empty_like(q_GTE);
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      const at::Tensor p_GCS = Dropout().draw(pairs.probabilities(first, count), dropout);
      out_GTE.narrow(1, first, count).copy_(at::bmm(p_GCS.to(v_GSE.scalar_type()), v_GSE));
    }
    return out_GTE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto kept = c10::static_intrusive_pointer_cast<Kept>(context->saved_data["kept"].toCapsule());
    const Pairs pairs{saved[0], saved[1], saved[3], kept->hidden_BS};
    const at::Tensor &grad_GTE = gradients[0], &v_GSE = saved[2];
    const at::ScalarType type = v_GSE.scalar_type();
    const RepeatedRandomness random(v_GSE.device(), kept->random);
    const at::Tensor grad_q_GTE = at::empty_like(pairs.q_GTE);
    StretchSum grad_k_GSE, grad_v_GSE;
    at::Tensor grad_HN;
    if (kept->needs_bias) grad_HN = at::zeros_like(pairs.by_distance_HN);
    const int64_t at_once = pairs.queries_at_once();
    for (int64_t first = 0; first < pairs.queries(); first += at_once) {
      const int64_t count = std::min(at_once, pairs.queries() - first);
      const at::Tensor grad_GCE = grad_GTE.narrow(1, first, count);
      const at::Tensor p_GCS = pairs.probabilities(first, count);
      Dropout dropout;
      grad_v_GSE.add(dropout.draw(p_GCS, kept->dropout).to(type), grad_GCE);
      at::Tensor grad_GCS = at::bmm(grad_GCE, v_GSE.transpose(1, 2)).to(at::kFloat);
      grad_GCS = at::_softmax_backward_data(dropout.apply_to(std::move(grad_GCS)), p_GCS, -1, at::kFloat);
      if (grad_HN.defined()) pairs.add_to_bias(grad_GCS.view({-1, pairs.heads(), count, pairs.keys()}), first, grad_HN);
      const at::Tensor of_scores_GCS = grad_GCS.to(type);
      grad_q_GTE.narrow(1, first, count).copy_(at::bmm(of_scores_GCS, pairs.k_GSE));
      grad_k_GSE.add(of_scores_GCS, pairs.q_GTE.narrow(1, first, count));
    }
    return {grad_q_GTE, grad_k_GSE.take(type), grad_v_GSE.take(type), grad_HN, at::Tensor()};
  }
};

// [B, S, H, E] as [B * H, S, E].
at::Tensor grouped(const at::Tensor& x_BSHE) {
  return x_BSHE.transpose(1, 2).reshape({-1, x_BSHE.size(1), x_BSHE.size(3)});
}

}  // namespace

at::Tensor biased_attention(const at::Tensor& q_BTHE, const at::Tensor& k_BSHE, const at::Tensor& v_BSHE,
                            const ScoreBias& bias, double dropout) {
  const int64_t rows = q_BTHE.size(0), queries = q_BTHE.size(1), heads = q_BTHE.size(2), size = q_BTHE.size(3);
  const std::optional<at::Tensor> by_distance_HN =
      bias.by_distance_HN.defined() ? std::optional(bias.by_distance_HN) : std::nullopt;
  const bool reverses = by_distance_HN && queries > 1;
  const auto kept = c10::make_intrusive<BiasedAttention::Kept>();
  kept->hidden_BS = bias.hidden_BS;
  kept->dropout = dropout;
  kept->needs_bias = by_distance_HN && by_distance_HN->requires_grad();
  const at::Tensor out_GTE = BiasedAttention::apply(grouped(reverses ? q_BTHE.flip(1) : q_BTHE), grouped(k_BSHE),
                                                    grouped(v_BSHE), by_distance_HN, kept);
  const at::Tensor out_BTHE = out_GTE.view({rows, heads, queries, size}).transpose(1, 2);
  // Heads of one number need no copy to lie side by side, and would be left as they lie.
  return (reverses ? out_BTHE.flip(1) : out_BTHE).reshape({rows, queries, heads * size}).contiguous();
}

}  // namespace fathom::ops
