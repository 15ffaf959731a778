// The loss in chunks against full logits: the same number and the same gradients, whatever the chunk and whoever
// counts.
#include "ops/head_loss.h"

#include <ATen/core/grad_mode.h>

#include <optional>

#include "footprint/loss_chunk.h"
#include "ops/cross_entropy.h"
#include "ops/head_gradient.h"
#include "tests/ops/compare.h"

namespace fathom::ops::head_loss_test {
namespace {

constexpr int64_t kTokens = 53, kVocabulary = 211;

struct Example {
  at::Tensor x_TD, head_VD, targets_T;
  // Every token counts, or the share of them that is drawn.
  Example(at::ScalarType computed, at::ScalarType stored, double share, int64_t width = 24) {
    at::manual_seed(11);
    x_TD = draw({kTokens, width}, computed, 2);
    head_VD = draw({kVocabulary, width}, stored, 0.5);
    targets_T = at::randint(0, kVocabulary, {kTokens}, at::kLong);
    if (share < 1) targets_T.masked_fill_(at::rand({kTokens}).ge(share), kIgnoredTarget);
  }
  // Of its rows those that count.
  LossTargets picked(int64_t chunk_rows) const {
    const at::Tensor rows_N = targets_T.ne(kIgnoredTarget).nonzero().view({-1});
    if (rows_N.size(0) == kTokens) return {{}, targets_T, 17, chunk_rows};
    return {rows_N, targets_T.index_select(0, rows_N), 17, chunk_rows};
  }
};

struct Outcome {
  at::Tensor loss, x_gradient, head_gradient;
};

// scale: of the loss, by the caller.
Outcome outcome(const Example& example, const LossTargets& targets, bool trains_head = true, double scale = 1) {
  const at::Tensor x_TD = example.x_TD.clone().set_requires_grad(true);
  const at::Tensor head_VD = example.head_VD.clone().set_requires_grad(trains_head);
  const at::Tensor copy_VD = head_VD.detach().to(x_TD.scalar_type());
  const at::Tensor loss = head_loss(x_TD * 1, head_VD, copy_VD, targets);
  torch::autograd::backward({scale == 1 ? loss : loss * scale}, {});
  return {loss.detach(), x_TD.grad(), head_VD.grad()};
}

// In double precision, from the head as products take it.
Outcome reference(const Example& example, double softcap = 0) {
  const at::Tensor x_TD = example.x_TD.to(at::kDouble).set_requires_grad(true);
  const at::Tensor head_VD = example.head_VD.to(example.x_TD.scalar_type()).to(at::kDouble).set_requires_grad(true);
  const at::Tensor made_TV = at::linear(x_TD, head_VD);
  const at::Tensor logits_TV = softcap > 0 ? (made_TV / softcap).tanh() * softcap : made_TV;
  const at::Tensor loss =
      at::cross_entropy_loss(logits_TV, example.targets_T, {}, at::Reduction::Sum, kIgnoredTarget) / 17.0;
  torch::autograd::backward({loss}, {});
  return {loss.detach(), x_TD.grad(), head_VD.grad()};
}

void expect_near(const Outcome& actual, const Outcome& expected, double tolerance) {
  EXPECT_LE(relative_difference(actual.loss, expected.loss), tolerance);
  EXPECT_LE(relative_difference(actual.x_gradient, expected.x_gradient), tolerance);
  if (actual.head_gradient.defined()) {
    EXPECT_LE(relative_difference(actual.head_gradient, expected.head_gradient), tolerance);
  }
}

constexpr int64_t kChunks[] = {0, 1, 7, 16, 52, 53, 54, 1000};

TEST(HeadLoss, equals_full_logits_whatever_the_chunk) {
  for (const double share : {1.0, 0.6, 0.02}) {
    const Example example(at::kFloat, at::kFloat, share);
    ASSERT_GT(example.picked(0).targets_N.size(0), 0);
    for (const int64_t chunk : kChunks) {
      SCOPED_TRACE(std::to_string(chunk) + " rows, of " + std::to_string(share));
      expect_near(outcome(example, example.picked(chunk)), reference(example), 1e-5);
      const LossTargets all{{}, example.targets_T, 17, chunk};  // with rows that do not count among them
      expect_near(outcome(example, all), reference(example), 1e-5);
    }
  }
}

TEST(HeadLoss, takes_one_row) {
  Example example(at::kFloat, at::kFloat, 1);
  example.targets_T.fill_(kIgnoredTarget);
  example.targets_T[31] = 5;
  for (const int64_t chunk : kChunks) expect_near(outcome(example, example.picked(chunk)), reference(example), 1e-5);
}

TEST(HeadLoss, without_any_row_is_zero_and_so_are_its_gradients) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
    Example example(type, at::kFloat, 1);
    example.targets_T.fill_(kIgnoredTarget);
    for (const int64_t chunk : {0, 5}) {
      const Outcome zero = outcome(example, example.picked(chunk));
      EXPECT_EQ(zero.loss.item<float>(), 0);
      EXPECT_TRUE(zero.x_gradient.equal(at::zeros_like(example.x_TD)));
      EXPECT_TRUE(zero.head_gradient.equal(at::zeros_like(example.head_VD)));
    }
  }
}

TEST(HeadLoss, leaves_a_frozen_head_alone) {
  const Example example(at::kFloat, at::kFloat, 0.6);
  const Outcome frozen = outcome(example, example.picked(7), /*trains_head=*/false);
  EXPECT_FALSE(frozen.head_gradient.defined());
  expect_near(frozen, reference(example), 1e-5);
}

TEST(HeadLoss, caps_logits) {
  constexpr double kSoftcap = 3;
  const Example example(at::kFloat, at::kFloat, 0.6);
  const Outcome expected = reference(example, kSoftcap);
  EXPECT_GT(relative_difference(expected.x_gradient, reference(example).x_gradient), 0.1);
  for (const int64_t chunk : {0, 1, 7}) {
    LossTargets targets = example.picked(chunk);
    targets.softcap = kSoftcap;
    expect_near(outcome(example, targets), expected, 1e-5);
  }
}

// Sums of many chunks are no worse than the one product of all rows: BF16 and FP16 sums would be.
TEST(HeadLoss, adds_narrow_products_up_in_full_precision) {
  struct Types {
    at::ScalarType computed, stored;
  };
  for (const auto [computed, stored] : {Types{at::kBFloat16, at::kFloat}, Types{at::kBFloat16, at::kBFloat16},
                                        Types{at::kHalf, at::kHalf}, Types{at::kHalf, at::kFloat}}) {
    const Example example(computed, stored, 0.6, /*width=*/700);
    const Outcome expected = reference(example), whole = outcome(example, example.picked(0));
    EXPECT_EQ(whole.head_gradient.scalar_type(), stored);
    for (const int64_t chunk : {1, 7, 16}) {
      SCOPED_TRACE(std::string(at::toString(computed)) + " over " + at::toString(stored) + ", " +
                   std::to_string(chunk));
      const Outcome chunked = outcome(example, example.picked(chunk));
      EXPECT_EQ(chunked.head_gradient.scalar_type(), stored);
      EXPECT_LE(relative_difference(chunked.head_gradient, expected.head_gradient),
                1.05 * relative_difference(whole.head_gradient, expected.head_gradient));
      EXPECT_LE(relative_difference(chunked.x_gradient, expected.x_gradient), tolerance(at::kBFloat16));
      EXPECT_LE(relative_difference(chunked.loss, expected.loss), 1e-3);
    }
  }
}

TEST(HeadGradient, is_added_up_part_by_part) {
  constexpr int64_t kWidth = 50'000;
  ASSERT_LT(footprint::head_gradient_rows(kVocabulary, kWidth, 2), kVocabulary);
  HeadGradient gradient(at::empty({kVocabulary, kWidth}), at::kBFloat16, /*in_one=*/false);
  const at::Tensor expected_VD = at::zeros({kVocabulary, kWidth});
  for (const int64_t rows : {3, 1}) {
    const at::Tensor made_CV = at::randint(-4, 5, {rows, kVocabulary}, at::kFloat),
                     x_CD = at::randint(-4, 5, {rows, kWidth}, at::kFloat);
    gradient.add(made_CV.to(at::kBFloat16), x_CD.to(at::kBFloat16));
    expected_VD.addmm_(made_CV.t(), x_CD);
  }
  EXPECT_TRUE(at::equal(gradient.take(), expected_VD));
}

TEST(HeadLoss, scales_with_the_upstream_gradient) {
  const Example example(at::kFloat, at::kFloat, 0.6);
  const Outcome plain = outcome(example, example.picked(7)), scaled = outcome(example, example.picked(7), true, 3);
  EXPECT_LE(relative_difference(scaled.x_gradient, plain.x_gradient * 3), 1e-6);
  EXPECT_LE(relative_difference(scaled.head_gradient, plain.head_gradient * 3), 1e-6);
  LossTargets targets = example.picked(7);
  targets.gradient_scale = 64;
  const Outcome lifted = outcome(example, targets);
  EXPECT_TRUE(lifted.loss.equal(plain.loss)) << "the loss itself is not scaled";
  EXPECT_TRUE(lifted.x_gradient.equal(plain.x_gradient * 64));
  EXPECT_TRUE(lifted.head_gradient.equal(plain.head_gradient * 64));
}

TEST(HeadLoss, without_gradients_makes_none) {
  const Example example(at::kFloat, at::kFloat, 0.6);
  const at::Tensor expected = reference(example).loss;
  const at::NoGradGuard no_gradients;
  const at::Tensor loss = head_loss(example.x_TD.clone(), example.head_VD, example.head_VD, example.picked(7));
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_LE(relative_difference(loss, expected), 1e-5);
}

}  // namespace
}  // namespace fathom::ops::head_loss_test
