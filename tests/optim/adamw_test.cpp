// AdamW against its formula by hand, weight decay by group, its state.
#include "optim/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace fathom::optim {
namespace {

at::Tensor leaf(at::Tensor value) { return value.set_requires_grad(true); }

TEST(AdamW, FollowsTheFormula) {
  const AdamWOptions options{0.8, 0.95, 1e-6, 0.1};
  const at::Tensor matrix = leaf(at::full({2, 3}, 0.5)), vector = leaf(at::full({3}, 0.5));
  AdamW optimizer({{"matrix", matrix, true}, {"vector", vector, false}}, options, nullptr);
  double m = 0, v = 0, decayed = 0.5, plain = 0.5;
  const double rate = 0.01;
  for (int step = 1; step <= 5; ++step) {
    const double gradient = 0.3 * step - 0.7;
    matrix.mutable_grad() = at::full({2, 3}, gradient);
    vector.mutable_grad() = at::full({3}, gradient);
    optimizer.step(rate);
    m = options.beta1 * m + (1 - options.beta1) * gradient;
    v = options.beta2 * v + (1 - options.beta2) * gradient * gradient;
    const double update = rate * (m / (1 - std::pow(options.beta1, step))) /
                          (std::sqrt(v / (1 - std::pow(options.beta2, step))) + options.epsilon);
    decayed = decayed * (1 - rate * options.weight_decay) - update;
    plain -= update;
    EXPECT_NEAR(matrix[1][2].item<double>(), decayed, 1e-6);
    EXPECT_NEAR(vector[0].item<double>(), plain, 1e-6);
  }
  EXPECT_EQ(optimizer.steps(), 5);
}

TEST(AdamW, StateIsThereBeforeTheFirstStepAndResumes) {
  const at::Tensor first = leaf(at::ones({4, 4})), second = leaf(at::ones({4, 4}));
  AdamW original({{"w", first, true}}, {}, nullptr), copy({{"w", second, true}}, {}, nullptr);
  ASSERT_EQ(original.state().size(), 2U);
  EXPECT_EQ(original.state()[0].first, "exp_avg.w");
  EXPECT_EQ(original.state()[1].first, "exp_avg_sq.w");
  EXPECT_TRUE(original.state()[1].second.eq(0).all().item<bool>());
  auto step = [](AdamW& optimizer, const at::Tensor& parameter, double gradient) {
    parameter.mutable_grad() = at::full({4, 4}, gradient);
    optimizer.step(0.1);
  };
  step(original, first, 1);
  for (size_t i = 0; i < 2; ++i) copy.state()[i].second.copy_(original.state()[i].second);
  copy.set_steps(original.steps());
  second.detach().copy_(first.detach());
  step(original, first, -2);
  step(copy, second, -2);
  EXPECT_TRUE(first.equal(second));
}

TEST(AdamW, KeepsMomentsInTheTypeOfEachParameter) {
  const at::Tensor wide = leaf(at::ones({3, 3})), narrow = leaf(at::ones({3, 3}, at::kBFloat16));
  AdamW optimizer({{"wide", wide, true}, {"narrow", narrow, true}}, {}, nullptr);
  EXPECT_EQ(optimizer.state()[2].second.scalar_type(), at::kBFloat16);
  wide.mutable_grad() = at::ones({3, 3});
  narrow.mutable_grad() = at::ones({3, 3}, at::kBFloat16);
  optimizer.step(0.5);
  EXPECT_NEAR(wide[0][0].item<double>(), 0.5, 1e-4);
  EXPECT_NEAR(narrow[0][0].item<double>(), 0.5, 1e-2);
}

}  // namespace
}  // namespace fathom::optim
