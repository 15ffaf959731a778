// Cross-entropy against ATen's, its gradient, and what it does with ignored and impossible targets.
#include "ops/cross_entropy.h"

#include "base/error.h"
#include "tests/ops/compare.h"

namespace fathom::ops {
namespace {

class CrossEntropyOf : public testing::TestWithParam<at::ScalarType> {};

TEST_P(CrossEntropyOf, sums_and_divides) {
  at::manual_seed(3);
  const at::ScalarType type = GetParam();
  at::Tensor targets = at::randint(0, 203, {3, 11}, at::kLong);
  targets[0][4] = kIgnoredTarget;
  targets[2].fill_(kIgnoredTarget);
  const Operator reference = [&](const std::vector<at::Tensor>& in) {
    return at::cross_entropy_loss(in[0].view({33, 203}), targets.view({33}), {}, at::Reduction::Sum, kIgnoredTarget) /
           17.0;
  };
  const Operator ours = [&](const std::vector<at::Tensor>& in) { return cross_entropy(in[0], targets, 17); };
  expect_equal(ours, reference, {draw({3, 11, 203}, type, 5)});
}

// Double has no kernel on the CPU: it takes the operators that CUDA takes.
INSTANTIATE_TEST_SUITE_P(Types, CrossEntropyOf, testing::Values(at::kFloat, at::kBFloat16, at::kDouble),
                         [](const auto& info) { return at::toString(info.param); });

TEST(CrossEntropy, is_float32_and_leaves_logits_alone_without_gradients) {
  const at::Tensor logits = draw({2, 3, 17}, at::kBFloat16);
  const at::Tensor before = logits.clone();
  const at::Tensor loss = cross_entropy(logits, at::zeros({2, 3}, at::kLong), 6);
  EXPECT_EQ(loss.scalar_type(), at::kFloat);
  EXPECT_FALSE(loss.requires_grad());
  EXPECT_TRUE(logits.equal(before));
}

TEST(CrossEntropy, gradient_takes_the_place_of_the_logits) {
  const at::Tensor leaf = draw({1, 4, 9}, at::kFloat).set_requires_grad(true);
  const at::Tensor logits = leaf * 2;
  const at::Tensor loss = cross_entropy(logits, at::zeros({1, 4}, at::kLong), 1);
  torch::autograd::backward({loss}, {});
  EXPECT_TRUE((logits.detach() * 2).equal(leaf.grad()));
}

TEST(CrossEntropy, scales_with_the_upstream_gradient) {
  const at::Tensor values = draw({1, 4, 9}, at::kFloat), targets = at::zeros({1, 4}, at::kLong);
  at::Tensor gradients[2];
  for (int i : {0, 1}) {
    const at::Tensor leaf = values.clone().set_requires_grad(true);
    at::Tensor loss = cross_entropy(leaf * 1.0, targets, 1);
    if (i == 1) loss = loss * 3;
    torch::autograd::backward({loss}, {});
    gradients[i] = leaf.grad();
  }
  EXPECT_LE(relative_difference(gradients[1], gradients[0] * 3), 1e-6);
}

TEST(CrossEntropy, refuses_targets_outside_the_vocabulary) {
  EXPECT_THROW(cross_entropy(at::zeros({1, 1, 5}), at::full({1, 1}, 5, at::kLong), 1), Error);
  EXPECT_THROW(cross_entropy(at::zeros({1, 1, 5}), at::full({1, 1}, -1, at::kLong), 1), Error);
}

TEST(CrossEntropy, nan_logits_make_a_nan_loss) {
  EXPECT_TRUE(cross_entropy(at::full({1, 2, 40}, NAN), at::zeros({1, 2}, at::kLong), 1).isnan().item<bool>());
}

}  // namespace
}  // namespace fathom::ops
