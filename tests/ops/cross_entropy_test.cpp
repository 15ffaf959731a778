// Cross-entropy against ATen's, its gradient, and what it does with ignored and impossible targets.
#include "ops/cross_entropy.h"

#include "base/error.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

at::Tensor loss_of(at::Tensor logits_CV, const at::Tensor& targets_C, double denominator, double gradient_scale = 0) {
  at::Tensor loss = at::zeros({});
  add_cross_entropy(loss, logits_CV, targets_C, denominator, gradient_scale);
  return loss;
}

class CrossEntropyOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(CrossEntropyOf, sums_divides_and_leaves_the_gradient_in_the_logits) {
  at::manual_seed(3);
  at::Tensor targets_C = at::randint(0, 203, {33}, at::kLong);
  targets_C[4] = kIgnoredTarget;
  targets_C.narrow(0, 22, 11).fill_(kIgnoredTarget);
  const at::Tensor logits_CV = draw({33, 203}, GetParam(), 5);
  const at::Tensor wide_CV = logits_CV.clone().to(at::kDouble).set_requires_grad(true);
  const at::Tensor expected = at::cross_entropy_loss(wide_CV, targets_C, {}, at::Reduction::Sum, kIgnoredTarget) / 17.0;
  torch::autograd::backward({expected}, {});
  EXPECT_LE(relative_difference(loss_of(logits_CV.clone(), targets_C, 17), expected), tolerance(at::kFloat));
  const at::Tensor scaled_CV = logits_CV.clone();
  EXPECT_LE(relative_difference(loss_of(logits_CV, targets_C, 17, 1), expected), tolerance(at::kFloat));
  const auto rounding = GetParam() == at::kDouble ? at::kFloat : GetParam();
  EXPECT_LE(relative_difference(logits_CV, wide_CV.grad()), tolerance(rounding));
  EXPECT_LE(relative_difference(loss_of(scaled_CV, targets_C, 17, 64), expected), tolerance(at::kFloat));
  EXPECT_LE(relative_difference(scaled_CV, wide_CV.grad() * 64), tolerance(rounding));
}

// Double has no kernel on the CPU: it takes the operators that CUDA takes.
INSTANTIATE_TEST_SUITE_P(Types, CrossEntropyOf, ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),
                         [](const auto& info) { return at::toString(info.param); });

TEST(CrossEntropy, is_added) {
  at::Tensor loss = at::ones({}), logits_CV = at::zeros({3, 5});
  for (int chunk = 0; chunk < 2; ++chunk) add_cross_entropy(loss, logits_CV, at::zeros({3}, at::kLong), 6, 0);
  EXPECT_NEAR(loss.item<float>(), 1 + std::log(5.0), 1e-6);
}

TEST(CrossEntropy, refuses_targets_outside_the_vocabulary) {
  EXPECT_THROW(loss_of(at::zeros({1, 5}), at::full({1}, 5, at::kLong), 1), Error);
  EXPECT_THROW(loss_of(at::zeros({1, 5}), at::full({1}, -1, at::kLong), 1), Error);
}

TEST(CrossEntropy, nan_logits_make_a_nan_loss) {
  EXPECT_TRUE(loss_of(at::full({2, 40}, NAN), at::zeros({2}, at::kLong), 1).isnan().item<bool>());
}

}  // namespace
}  // namespace fathom::ops
