// Against the formula over all pairs at once, by autograd: FP32 and 16 bits by the kernel, FP64 by ATen's operators, as
// on CUDA.
#include "ops/attention/biased_attention.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

#include "arch/attention_by_scores.h"
#include "footprint/biased_attention.h"

namespace fathom::ops::biased_attention_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Shape {
  int64_t rows, queries, keys, heads, size;
  bool by_distance, causal, padded;
};

struct Inputs {
  explicit Inputs(const Shape& shape, at::ScalarType type = at::kFloat) {
    at::manual_seed(7);
    q_BTHE = leaf({shape.rows, shape.queries, shape.heads, shape.size}, type);
    k_BSHE = leaf({shape.rows, shape.keys, shape.heads, shape.size}, type);
    v_BSHE = leaf({shape.rows, shape.keys, shape.heads, shape.size}, type);
    if (shape.by_distance) {
      numbers_HN = leaf({shape.heads, shape.queries + shape.keys - 1});
      bias.by_distance_HN = numbers_HN;
      if (shape.causal) {
        bias.by_distance_HN =
            numbers_HN.masked_fill(at::arange(shape.queries + shape.keys - 1).ge(shape.keys), -kInfinity);
      }
    }
    if (shape.padded) {
      bias.hidden_BS = at::zeros({shape.rows, shape.keys}, at::kBool);
      bias.hidden_BS.select(0, 0).narrow(0, shape.keys / 2, shape.keys - shape.keys / 2).fill_(true);
    }
  }
  static at::Tensor leaf(at::IntArrayRef sizes, at::ScalarType type = at::kFloat) {
    return at::randn(sizes).to(type).requires_grad_();
  }

  // Of all pairs: j - i + T - 1.
  at::Tensor formula(const at::Tensor& left_out = {}, double dropout = 0) const {
    const int64_t queries = q_BTHE.size(1), keys = k_BSHE.size(1);
    at::Tensor scores_BHTS = at::einsum("bthe,bshe->bhts", {wide(q_BTHE), wide(k_BSHE)});
    if (bias.by_distance_HN.defined()) {
      const at::Tensor places_TS = at::arange(keys).unsqueeze(0) - at::arange(queries).unsqueeze(1) + queries - 1;
      scores_BHTS =
          scores_BHTS +
          bias.by_distance_HN.index_select(1, places_TS.flatten()).view({bias.by_distance_HN.size(0), queries, keys});
    }
    if (bias.hidden_BS.defined()) {
      scores_BHTS = scores_BHTS.masked_fill(bias.hidden_BS.unsqueeze(1).unsqueeze(1), -kInfinity);
    }
    at::Tensor p_BHTS = scores_BHTS.softmax(-1);
    if (left_out.defined()) p_BHTS = p_BHTS.masked_fill(left_out, 0) / (1 - dropout);
    return at::einsum("bhts,bshe->bthe", {p_BHTS, wide(v_BSHE)}).flatten(2);
  }
  static at::Tensor wide(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }

  std::vector<at::Tensor> gradients(const at::Tensor& out) {
    for (at::Tensor* leaf : {&q_BTHE, &k_BSHE, &v_BSHE, &numbers_HN}) {
      if (leaf->defined()) leaf->mutable_grad().reset();
    }
    const at::Tensor weights = at::linspace(-1, 1, out.numel()).view(out.sizes());
    torch::autograd::backward({(out * weights).sum()}, {}, /*retain_graph=*/true);
    std::vector<at::Tensor> result = {q_BTHE.grad(), k_BSHE.grad(), v_BSHE.grad()};
    if (numbers_HN.defined()) result.push_back(numbers_HN.grad());
    for (at::Tensor& gradient : result) gradient = gradient.clone();
    return result;
  }

  at::Tensor q_BTHE, k_BSHE, v_BSHE, numbers_HN;
  Scores bias;
};

void expect_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance = 3e-6) {
  EXPECT_LE((actual - expected).norm().item<double>(), tolerance * expected.norm().item<double>() + 1e-12);
}

// By the kernel, and by operators.
class BiasedAttentionOf : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, BiasedAttentionOf, ::testing::Values(at::kFloat, at::kDouble),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

class BiasedAttentionIn : public ::testing::TestWithParam<at::ScalarType> {};
INSTANTIATE_TEST_SUITE_P(Types, BiasedAttentionIn, ::testing::Values(at::kFloat, at::kDouble, at::kBFloat16, at::kHalf),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST_P(BiasedAttentionIn, IsTheFormula) {
  const double tolerance = GetParam() == at::kBFloat16 ? 2e-2 : GetParam() == at::kHalf ? 3e-3 : 3e-6;
  for (const Shape& shape : {Shape{2, 5, 5, 3, 4, true, false, true}, Shape{2, 7, 7, 1, 6, true, true, false},
                             Shape{3, 4, 9, 2, 5, false, false, true}, Shape{1, 1, 6, 2, 3, true, false, false},
                             Shape{2, 3, 1, 2, 8, false, false, false}, Shape{2, 5, 5, 3, 1, true, true, true},
                             Shape{2, 1500, 1501, 2, 3, true, false, true}}) {
    SCOPED_TRACE(shape.queries);
    Inputs inputs(shape, GetParam());
    const at::Tensor expected = inputs.formula();
    const at::Tensor actual = biased_attention(inputs.q_BTHE, inputs.k_BSHE, inputs.v_BSHE, inputs.bias, 0);
    EXPECT_TRUE(actual.is_contiguous());
    expect_close(actual, expected, tolerance);
    const auto wanted = inputs.gradients(expected), made = inputs.gradients(actual);
    for (size_t i = 0; i < wanted.size(); ++i) expect_close(made[i], wanted[i], tolerance);
  }
  EXPECT_LT(arch::queries_at_once(2 * 2, 1500, 1501), 1500) << "the last case is of several stretches";
}

// Heads that share keys, scaled and capped scores, and what a causal window lets be seen, in several stretches too.
TEST_P(BiasedAttentionOf, CapsTheScoresOfHeadsThatShareKeys) {
  struct Case {
    int64_t queries, keys, window;
    double softcap;
  };
  for (const auto& [queries, keys, window, softcap] :
       {Case{5, 5, 0, 1.5}, {7, 7, 3, 2}, {3, 9, 4, 0}, {1, 6, 2, 5}, {1200, 1300, 70, 3}}) {
    SCOPED_TRACE(queries);
    constexpr int64_t kRows = 2, kHeads = 4, kKeyHeads = 2, kSize = 3;
    at::manual_seed(9);
    const at::Tensor q_BTHE = Inputs::leaf({kRows, queries, kHeads, kSize}, GetParam());
    const at::Tensor k_BSKE = Inputs::leaf({kRows, keys, kKeyHeads, kSize}, GetParam());
    const at::Tensor v_BSKE = Inputs::leaf({kRows, keys, kKeyHeads, kSize}, GetParam());
    const Scores scores{causal_by_distance(kHeads, queries, keys, window, at::kCPU), {}, 0.7, softcap};
    const at::Tensor actual = biased_attention(q_BTHE, k_BSKE, v_BSKE, scores, 0);

    const auto of_all_heads = [](const at::Tensor& x_BSKE) { return x_BSKE.repeat_interleave(kHeads / kKeyHeads, 2); };
    at::Tensor scores_BHTS = at::einsum("bthe,bshe->bhts", {q_BTHE, of_all_heads(k_BSKE)}) * scores.scale;
    if (softcap > 0) scores_BHTS = (scores_BHTS / softcap).tanh() * softcap;
    const at::Tensor behind_TS =
        at::arange(keys - queries, keys).unsqueeze(1) - at::arange(keys).unsqueeze(0);  // keys lie behind their query
    at::Tensor hidden_TS = behind_TS.lt(0);
    if (window > 0) hidden_TS = hidden_TS.logical_or(behind_TS.ge(window));
    const at::Tensor p_BHTS = scores_BHTS.masked_fill(hidden_TS, -kInfinity).softmax(-1);
    const at::Tensor expected = at::einsum("bhts,bshe->bthe", {p_BHTS, of_all_heads(v_BSKE)}).flatten(2);
    expect_close(actual, expected);
    const at::Tensor weights = at::linspace(-1, 1, actual.numel()).view(actual.sizes());
    std::vector<at::Tensor> wanted;
    for (const at::Tensor& out : {expected, actual}) {
      for (const at::Tensor& leaf : {q_BTHE, k_BSKE, v_BSKE}) leaf.mutable_grad().reset();
      torch::autograd::backward({(out * weights).sum()}, {}, /*retain_graph=*/true);
      if (wanted.empty()) {
        for (const at::Tensor& leaf : {q_BTHE, k_BSKE, v_BSKE}) wanted.push_back(leaf.grad().clone());
      }
    }
    expect_close(q_BTHE.grad(), wanted[0]);
    expect_close(k_BSKE.grad(), wanted[1]);
    expect_close(v_BSKE.grad(), wanted[2]);
  }
}

// What is left out in the forward pass is left out in the backward pass, and the generator goes on where it was.
TEST_P(BiasedAttentionOf, LeavesTheSameOutTwice) {
  constexpr double kDropout = 0.3;
  const Shape shape{2, 6, 8, 2, 4, false, false, true};
  Inputs inputs(shape, GetParam());
  at::manual_seed(11);
  const at::Tensor left_out = at::empty({4, 6, 8}, at::kBool).bernoulli_(kDropout).view({2, 2, 6, 8});
  at::manual_seed(11);
  const at::Tensor actual = biased_attention(inputs.q_BTHE, inputs.k_BSHE, inputs.v_BSHE, inputs.bias, kDropout);
  const at::Tensor next = at::rand({3});
  const at::Tensor expected = inputs.formula(left_out, kDropout);
  expect_close(actual, expected);
  at::manual_seed(12);
  const auto made = inputs.gradients(actual);
  const at::Tensor after = at::rand({3});
  at::manual_seed(12);
  EXPECT_TRUE(at::equal(after, at::rand({3})));
  const auto wanted = inputs.gradients(expected);
  for (size_t i = 0; i < wanted.size(); ++i) expect_close(made[i], wanted[i]);
  at::manual_seed(11);
  at::empty({4, 6, 8}, at::kBool).bernoulli_(kDropout);
  EXPECT_TRUE(at::equal(next, at::rand({3})));
}

}  // namespace
}  // namespace fathom::ops::biased_attention_test
