// A process alone keeps its gradients from the backward pass until the update is done; the other ways are tested where
// several processes train (tests/app), and by updates_in_backward_test.cpp.
#include "train/gradient_keeper.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

// Two parameters, whose gradients are 3 and `second`.
std::vector<model::Parameter> differentiated(double second) {
  std::vector<model::Parameter> trained;
  for (const auto& [name, gradient] : {std::pair("first", 3.0), std::pair("second", second)}) {
    trained.push_back({.name = name, .tensor = at::ones({1}).requires_grad_(true)});
    (trained.back().tensor * gradient).sum().backward();
  }
  return trained;
}

TEST(GradientKeeper, KeepsOwnGradientsUntilTheyAreCleared) {
  const std::vector<model::Parameter> trained = differentiated(4);
  const std::unique_ptr<GradientKeeper> keeper = own_gradients(trained, testing::cpu_ledger());
  keeper->end_passes();
  const optim::GradientNorm norm = keeper->norm(/*max_norm=*/2.5, std::nullopt);
  EXPECT_FLOAT_EQ(norm.total.item<float>(), 5);
  EXPECT_NEAR(norm.factor.item<float>(), 0.5, 1e-6);
  EXPECT_EQ(keeper->first_not_finite(), "");
  keeper->clear();
  for (const model::Parameter& parameter : trained) EXPECT_FALSE(parameter.tensor.grad().defined());
}

TEST(GradientKeeper, NamesTheFirstGradientThatIsNotFinite) {
  const std::vector<model::Parameter> trained = differentiated(std::numeric_limits<double>::infinity());
  EXPECT_EQ(own_gradients(trained, testing::cpu_ledger())->first_not_finite(), "second");
}

}  // namespace
}  // namespace fathom::train
