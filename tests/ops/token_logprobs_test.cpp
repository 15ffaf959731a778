// Log-probabilities and their gradients against full logits in double precision, and a preference loss made of them.
#include "ops/token_logprobs.h"

#include "ops/cross_entropy.h"
#include "tests/ops/compare.h"

namespace fathom::ops::token_logprobs_test {
namespace {

constexpr int64_t kTokens = 53, kVocabulary = 211, kWidth = 24;
constexpr int64_t kChunks[] = {0, 1, 7, 52, 53, 1000};

struct Example {
  at::Tensor x_ND, head_VD, targets_N;
  explicit Example(at::ScalarType computed, at::ScalarType stored = at::kFloat) {
    at::manual_seed(12);
    x_ND = draw({kTokens, kWidth}, computed, 2);
    head_VD = draw({kVocabulary, kWidth}, stored, 0.5);
    targets_N = at::randint(0, kVocabulary, {kTokens}, at::kLong);
    targets_N.masked_fill_(at::rand({kTokens}).ge(0.7), kIgnoredTarget);
  }
};

struct Outcome {
  at::Tensor logprobs, x_gradient, head_gradient;
};

// Makes a loss of log-probabilities [N].
using Loss = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor weighted(const at::Tensor& logprobs_N) {
  return (logprobs_N * at::arange(-20, kTokens - 20).to(logprobs_N.scalar_type())).sum();
}

// The first half of the tokens is preferred to the second (Rafailov et al. 2023, arXiv 2305.18290).
at::Tensor preference(const at::Tensor& logprobs_N) {
  const at::Tensor chosen = logprobs_N.narrow(0, 0, kTokens / 2).sum();
  const at::Tensor rejected = logprobs_N.narrow(0, kTokens / 2, kTokens - kTokens / 2).sum();
  return -at::sigmoid((chosen - rejected) * 0.01).log();
}

Outcome outcome(const Example& example, int64_t chunk, const Loss& loss, bool trains_x = true,
                bool trains_head = true) {
  const at::Tensor x_ND = example.x_ND.clone().set_requires_grad(trains_x);
  const at::Tensor head_VD = example.head_VD.clone().set_requires_grad(trains_head);
  const at::Tensor logprobs_N =
      token_logprobs(x_ND, head_VD, head_VD.detach().to(x_ND.scalar_type()), example.targets_N, chunk);
  torch::autograd::backward({loss(logprobs_N)}, {});
  return {logprobs_N.detach(), x_ND.grad(), head_VD.grad()};
}

Outcome reference(const Example& example, const Loss& loss) {
  const at::Tensor x_ND = example.x_ND.to(at::kDouble).clone().set_requires_grad(true);
  const at::Tensor head_VD =
      example.head_VD.to(example.x_ND.scalar_type()).to(at::kDouble).clone().set_requires_grad(true);
  const at::Tensor all_NV = at::log_softmax(at::linear(x_ND, head_VD), 1);
  const at::Tensor logprobs_N = all_NV.gather(1, example.targets_N.clamp_min(0).unsqueeze(1))
                                    .squeeze(1)
                                    .masked_fill(example.targets_N.eq(kIgnoredTarget), 0);
  torch::autograd::backward({loss(logprobs_N)}, {});
  return {logprobs_N.detach(), x_ND.grad(), head_VD.grad()};
}

TEST(TokenLogprobs, EqualFullLogitsWhateverTheChunk) {
  const Example example(at::kFloat);
  for (const Loss& loss : {Loss(weighted), Loss(preference)}) {
    const Outcome expected = reference(example, loss);
    for (const int64_t chunk : kChunks) {
      SCOPED_TRACE(chunk);
      const Outcome actual = outcome(example, chunk, loss);
      EXPECT_EQ(actual.logprobs.scalar_type(), at::kFloat);
      EXPECT_LE(relative_difference(actual.logprobs, expected.logprobs), 1e-6);
      EXPECT_LE(relative_difference(actual.x_gradient, expected.x_gradient), 1e-5);
      EXPECT_LE(relative_difference(actual.head_gradient, expected.head_gradient), 1e-5);
    }
  }
}

TEST(TokenLogprobs, OfNarrowTypesAreInFullPrecision) {
  for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
    const Example example(at::kBFloat16, stored);
    const Outcome expected = reference(example, weighted);
    for (const int64_t chunk : kChunks) {
      SCOPED_TRACE(chunk);
      const Outcome actual = outcome(example, chunk, weighted);
      EXPECT_LE(relative_difference(actual.logprobs, expected.logprobs), 5e-3);
      EXPECT_LE(relative_difference(actual.x_gradient, expected.x_gradient), 1e-2);
      EXPECT_LE(relative_difference(actual.head_gradient, expected.head_gradient), 1e-2);
      EXPECT_EQ(actual.head_gradient.scalar_type(), stored);
    }
  }
}

TEST(TokenLogprobs, GoByOperatorsInOtherTypes) {
  const Example example(at::kDouble, at::kDouble);
  const Outcome expected = reference(example, preference), actual = outcome(example, 7, preference);
  EXPECT_LE(relative_difference(actual.logprobs, expected.logprobs), 1e-6);
  EXPECT_LE(relative_difference(actual.x_gradient, expected.x_gradient), 1e-6);
}

TEST(TokenLogprobs, MakeNoGradientThatNobodyNeeds) {
  const Example example(at::kFloat);
  const Outcome expected = reference(example, weighted);
  const Outcome frozen_head = outcome(example, 7, weighted, true, false);
  EXPECT_FALSE(frozen_head.head_gradient.defined());
  EXPECT_LE(relative_difference(frozen_head.x_gradient, expected.x_gradient), 1e-5);
  const Outcome frozen_x = outcome(example, 7, weighted, false, true);
  EXPECT_FALSE(frozen_x.x_gradient.defined());
  EXPECT_LE(relative_difference(frozen_x.head_gradient, expected.head_gradient), 1e-5);
}

TEST(TokenLogprobs, OfRowsWithoutWeightHaveNoGradient) {
  const Example example(at::kFloat);
  const Outcome none = outcome(example, 7, [](const at::Tensor& logprobs_N) { return (logprobs_N * 0).sum(); });
  EXPECT_EQ(none.x_gradient.abs().sum().item<float>(), 0);
  EXPECT_EQ(none.head_gradient.abs().sum().item<float>(), 0);
}

TEST(TokenLogprobs, RefuseTargetsOutsideTheVocabulary) {
  const Example example(at::kFloat);
  example.targets_N[3] = kVocabulary;
  EXPECT_THROW(outcome(example, 7, weighted), std::exception);
}

}  // namespace
}  // namespace fathom::ops::token_logprobs_test
