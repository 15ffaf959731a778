// On a CPU one kernel turns products into probabilities where they lie; ATen's operators go over them several times.
#include "ops/attention/attention_scores.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "arch/attention_by_scores.h"
#include "cpu/attention_scores.h"
#include "ops/dropout.h"
#include "ops/linear/matrix_product.h"
#include "ops/rows.h"
#include "ops/traffic.h"

namespace fathom::ops {
namespace {

// One pass over a stretch's products and, backwards, over the gradients of what became of them.
class ByKernel : public ScoreStretches {
 public:
  ByKernel(const Pairs& pairs, bool gradient_of_bias) : pairs_(pairs) {
    if (!gradient_of_bias) return;
    const at::Tensor& bias_HN = pairs.scores.by_distance_HN;
    grad_GN_ = at::zeros({pairs.groups(), bias_HN.size(1)}, bias_HN.options());
  }

  at::Tensor probabilities(int64_t first, int64_t count, double p) override {
    at::Tensor products_GMS = pairs_.products_GMS(first, count);
    Dropout dropout;
    dropout.draw_for(products_GMS, p);
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::attention_probabilities", traffic(products_GMS, products_GMS));
    if (!products_GMS.is_cpu()) return products_GMS;
    const cpu::ScoreRows of_scores = score_rows(first, count, dropout);
    at::parallel_for(0, products_GMS.size(0) * products_GMS.size(1), rows_per_task(), [&](int64_t begin, int64_t end) {
      cpu::attention_probabilities(rows(products_GMS), of_scores, begin, end);
    });
    return products_GMS;
  }

  void back(int64_t first, int64_t count, double p, const at::Tensor& grad_GME, Gradients& gradients) override {
    const at::Tensor p_GMS = pairs_.products_GMS(first, count),
                     grad_GMS = ops::bmm(grad_GME, pairs_.v_GSE.transpose(1, 2));
    Dropout dropout;
    dropout.draw_for(p_GMS, p);
    turn(p_GMS, grad_GMS, first, count, dropout);
    gradients.v_GSE.add(p_GMS, grad_GME);
    pairs_.stretch(gradients.q_GNE, first, count).copy_(ops::bmm(grad_GMS, pairs_.k_GSE));
    gradients.k_GSE.add(grad_GMS, pairs_.stretch(pairs_.q_GNE, first, count));
  }

  at::Tensor gradient_of_bias() const override {
    return grad_GN_.defined() ? grad_GN_.view({-1, pairs_.key_heads(), grad_GN_.size(1)}).sum(0) : grad_GN_;
  }

 private:
  // Products and gradients of probabilities become probabilities and gradients of products.
  void turn(const at::Tensor& products_GMS, const at::Tensor& grad_GMS, int64_t first, int64_t count,
            const Dropout& dropout) {
    RECORD_USER_SCOPE_WITH_INPUTS("fathom::attention_probabilities_backward",
                                  traffic(products_GMS, products_GMS, grad_GMS, grad_GMS));
    if (!products_GMS.is_cpu()) return;
    const cpu::ScoreRows of_scores = score_rows(first, count, dropout);
    float* const grad_bias = grad_GN_.defined() ? grad_GN_.data_ptr<float>() + first : nullptr;
    // A group's rows add to the same gradients, in order: the same bits with any number of threads.
    const int64_t together = grad_bias != nullptr ? products_GMS.size(1) : 1;
    at::parallel_for(0, products_GMS.size(0) * products_GMS.size(1) / together,
                     std::max<int64_t>(1, rows_per_task() / together), [&](int64_t begin, int64_t end) {
                       cpu::attention_probabilities_backward(rows(products_GMS), rows(grad_GMS), of_scores, grad_bias,
                                                             grad_GN_.defined() ? grad_GN_.size(1) : 0,
                                                             begin * together, end * together);
                     });
  }

  cpu::ScoreRows score_rows(int64_t first, int64_t count, const Dropout& dropout) const {
    const Scores& scores = pairs_.scores;
    cpu::ScoreRows of_scores;
    of_scores.key_heads = pairs_.key_heads();
    of_scores.queries = count;
    of_scores.repeats = pairs_.repeats;
    of_scores.keys = pairs_.keys();
    of_scores.scale = static_cast<float>(scores.scale);
    of_scores.softcap = static_cast<float>(scores.softcap);
    if (scores.by_distance_HN.defined()) {
      of_scores.bias = scores.by_distance_HN.data_ptr<float>() + first;
      of_scores.bias_stride = scores.by_distance_HN.stride(0);
    }
    if (scores.hidden_BS.defined()) of_scores.hidden = scores.hidden_BS.data_ptr<bool>();
    if (!dropout.is_off()) {
      of_scores.left_out = dropout.left_out().data_ptr<bool>();
      of_scores.kept_scale = static_cast<float>(dropout.kept_scale());
    }
    return of_scores;
  }
  int64_t rows_per_task() const { return std::max<int64_t>(1, kElementsPerTask / pairs_.keys()); }

  const Pairs& pairs_;
  at::Tensor grad_GN_;  // of the bias, by groups, from the first distance on
};

class ByOperators : public ScoreStretches {
 public:
  ByOperators(const Pairs& pairs, bool gradient_of_bias) : pairs_(pairs) {
    if (gradient_of_bias) grad_HN_ = at::zeros_like(pairs.scores.by_distance_HN);
  }

  at::Tensor probabilities(int64_t first, int64_t count, double dropout) override {
    return Dropout().draw(softmax(first, count), dropout).to(pairs_.k_GSE.scalar_type());
  }

  void back(int64_t first, int64_t count, double p, const at::Tensor& grad_GME, Gradients& gradients) override {
    const at::ScalarType type = pairs_.k_GSE.scalar_type();
    at::Tensor tanh_GMS;
    const at::Tensor p_GMS = softmax(first, count, &tanh_GMS);
    Dropout dropout;
    gradients.v_GSE.add(dropout.draw(p_GMS, p).to(type), grad_GME);
    at::Tensor grad_GMS = at::bmm(grad_GME, pairs_.v_GSE.transpose(1, 2)).to(at::kFloat);
    grad_GMS = at::_softmax_backward_data(dropout.apply_to(std::move(grad_GMS)), p_GMS, -1, at::kFloat);
    if (grad_HN_.defined()) add_to_bias(grad_GMS, first);
    const at::Tensor of_products_GMS = product_gradient(std::move(grad_GMS), tanh_GMS).to(type);
    pairs_.stretch(gradients.q_GNE, first, count).copy_(at::bmm(of_products_GMS, pairs_.k_GSE));
    gradients.k_GSE.add(of_products_GMS, pairs_.stretch(pairs_.q_GNE, first, count));
  }

  at::Tensor gradient_of_bias() const override { return grad_HN_; }

 private:
  // In FP32, of the queries [first, first + count). tanh_GMS: that of the scores, where they are capped and it is asked
  // for.
  at::Tensor softmax(int64_t first, int64_t count, at::Tensor* tanh_GMS = nullptr) const {
    at::Tensor scores_GMS = pairs_.products_GMS(first, count).to(at::kFloat);
    const Scores& scores = pairs_.scores;
    if (scores.softcap > 0) {
      scores_GMS.mul_(scores.scale / scores.softcap).tanh_();
      if (tanh_GMS != nullptr) *tanh_GMS = scores_GMS.clone();
      scores_GMS.mul_(scores.softcap);
    } else if (scores.scale != 1) {
      scores_GMS.mul_(scores.scale);
    }
    const at::Tensor scores_BKCRS = scores_GMS.view({-1, pairs_.key_heads(), count, pairs_.repeats, pairs_.keys()});
    if (scores.by_distance_HN.defined()) scores_BKCRS.add_(bias(first, count));
    if (scores.hidden_BS.defined()) {
      scores_BKCRS.masked_fill_(scores.hidden_BS.view({-1, 1, 1, 1, pairs_.keys()}),
                                -std::numeric_limits<double>::infinity());
    }
    return at::_softmax(scores_GMS, -1, /*half_to_float=*/false);
  }

  // [K, count, R, S], a view.
  at::Tensor bias(int64_t first, int64_t count) const {
    const at::Tensor& bias_HN = pairs_.scores.by_distance_HN;
    const int64_t row = bias_HN.stride(0);
    return bias_HN.as_strided({pairs_.key_heads(), count, pairs_.repeats, pairs_.keys()},
                              {pairs_.repeats * row, 1, row, 1}, bias_HN.storage_offset() + first);
  }

  // Adds the gradients of a stretch's scores, one head a group, to those of the bias, [H, N]: sums along diagonals,
  // which a wider row's end pushes into columns.
  void add_to_bias(const at::Tensor& grad_GCS, int64_t first) const {
    const at::Tensor grad_BHCS = grad_GCS.view({-1, pairs_.key_heads(), grad_GCS.size(1), pairs_.keys()});
    const int64_t count = grad_BHCS.size(2), wide = pairs_.keys() + count;
    const at::Tensor padded_HCW = at::zeros({pairs_.key_heads(), count, wide}, grad_BHCS.options());
    at::Tensor sums_HCS = padded_HCW.narrow(2, 0, pairs_.keys());
    at::sum_out(sums_HCS, grad_BHCS, at::IntArrayRef({0}));
    grad_HN_.narrow(1, first, wide - 1)
        .add_(padded_HCW.as_strided({pairs_.key_heads(), count, wide - 1}, {count * wide, wide - 1, 1}).sum(1));
  }

  // Of the products, of the gradient of the scores that became probabilities.
  at::Tensor product_gradient(at::Tensor grad_GMS, const at::Tensor& tanh_GMS) const {
    if (tanh_GMS.defined()) at::tanh_backward_out(grad_GMS, grad_GMS, tanh_GMS);
    return pairs_.scores.scale == 1 ? grad_GMS : grad_GMS.mul_(pairs_.scores.scale);
  }

  const Pairs& pairs_;
  at::Tensor grad_HN_;  // of the bias
};

}  // namespace

int64_t Pairs::queries_at_once() const { return arch::queries_at_once(groups() * repeats, queries(), keys()); }

int64_t Pairs::key_heads() const {
  if (scores.by_distance_HN.defined()) return scores.by_distance_HN.size(0) / repeats;
  return scores.hidden_BS.defined() ? groups() / scores.hidden_BS.size(0) : 1;
}

at::Tensor Pairs::stretch(const at::Tensor& x_GNE, int64_t first, int64_t count) const {
  return x_GNE.narrow(1, first * repeats, count * repeats);
}

at::Tensor Pairs::products_GMS(int64_t first, int64_t count) const {
  return ops::bmm(stretch(q_GNE, first, count), k_GSE.transpose(1, 2));
}

void StretchSum::add(const at::Tensor& of_scores_GMS, const at::Tensor& of_queries_GME) {
  at::Tensor product_GSE = ops::bmm(of_scores_GMS.transpose(1, 2), of_queries_GME);
  if (!sum_GSE_.defined()) {
    sum_GSE_ = std::move(product_GSE);
  } else {
    sum_GSE_ = sum_GSE_.to(at::kFloat).add_(product_GSE);
  }
}

std::unique_ptr<ScoreStretches> score_stretches(const Pairs& pairs, bool gradient_of_bias) {
  if (has_kernel(pairs.q_GNE)) return std::make_unique<ByKernel>(pairs, gradient_of_bias);
  return std::make_unique<ByOperators>(pairs, gradient_of_bias);
}

}  // namespace fathom::ops
