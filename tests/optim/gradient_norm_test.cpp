// The norm of gradients and the factor that clips them.
#include "optim/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace fathom::optim {
namespace {

double norm_of(const std::vector<at::Tensor>& gradients) { return gradient_norm(gradients, 0).total.item<double>(); }

TEST(GradientNorm, GivesTheNormAndTheFactorThatBringsItToTheLimit) {
  const std::vector<at::Tensor> gradients = {at::full({2, 2}, 3.0), at::full({7}, 4.0)};
  const double norm = std::sqrt(4 * 9 + 7 * 16.0);
  const GradientNorm result = gradient_norm(gradients, 1);
  EXPECT_NEAR(result.total.item<double>(), norm, 1e-5);
  EXPECT_NEAR(result.factor.item<double>(), 1 / norm, 1e-7);
  EXPECT_TRUE(gradients[0].eq(3).all().item<bool>()) << "who reads the gradients applies the factor";
}

// By the kernel for what lies in one piece, and by LibTorch's operators for all else, GPUs included.
TEST(GradientNorm, IsOfAllProcesses) {
  for (const at::Tensor& gradient : {at::full({2, 8}, 3.0), at::full({8, 2}, 3.0).t()}) {
    const auto of_four = [](double own) { return 4 * own; };
    EXPECT_NEAR(gradient_norm({gradient}, 0, std::nullopt, of_four).total.item<double>(), 2 * 4 * 3, 1e-5);
  }
}

TEST(GradientNorm, LeavesSmallGradientsAlone) {
  const std::vector<at::Tensor> gradients = {at::full({4}, 0.125)};
  EXPECT_EQ(gradient_norm(gradients, 1).factor.item<double>(), 1);
  EXPECT_FALSE(gradient_norm(gradients, 0).factor.defined());
  EXPECT_THROW(gradient_norm({}, 1), Error);
}

TEST(GradientNorm, TakesTheLossScaleOff) {
  const std::vector<at::Tensor> gradients = {at::full({4}, 8.0)};
  EXPECT_EQ(gradient_norm(gradients, 0, 64).total.item<double>(), 0.25);
  EXPECT_EQ(gradient_norm(gradients, 0, 64).factor.item<double>(), 1.0 / 64);
  EXPECT_EQ(gradient_norm(gradients, 1, 64).factor.item<double>(), 1.0 / 64) << "within the limit";
  EXPECT_NEAR(gradient_norm(gradients, 0.125, 64).factor.item<double>(), 0.5 / 64, 1e-7);
  const std::vector<at::Tensor> overflown = {gradients[0], at::full({3}, -INFINITY)};
  EXPECT_FALSE(std::isfinite(gradient_norm(overflown, 1, 64).total.item<double>()));
}

TEST(GradientNorm, GivesTheSameBitsForAnyNumberOfThreads) {
  at::manual_seed(2);
  const std::vector<at::Tensor> gradients = {at::randn({300001}), at::randn({77, 5})};
  const double expected = at::cat({gradients[0], gradients[1].flatten()}).to(at::kDouble).norm().item<double>();
  at::set_num_threads(1);
  const double one = norm_of(gradients);
  at::set_num_threads(2);
  EXPECT_EQ(norm_of(gradients), one);
  EXPECT_NEAR(one, expected, 1e-6 * expected);
  at::set_num_threads(1);
}

TEST(GradientNorm, TakesGradientsOfAnyLayout) {
  const at::Tensor strided = at::arange(6, at::kFloat).view({2, 3}).t();
  EXPECT_NEAR(norm_of({strided}), std::sqrt(55.0), 1e-5);
}

TEST(GradientNorm, SumsBf16GradientsInFloat32) {
  EXPECT_NEAR(norm_of({at::ones({1000}, at::kBFloat16), at::ones({25}, at::kBFloat16)}), std::sqrt(1025.0), 1e-4);
}

}  // namespace
}  // namespace fathom::optim
