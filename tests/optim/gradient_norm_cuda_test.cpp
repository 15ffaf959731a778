// The norm of gradients by fathom's CUDA kernels, played on the CPU thread by thread, against PyTorch's in FP64.
#include "optim/gradient_norm_cuda.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

// The kernels themselves are mixed_adamw_cuda_test.cpp's.
#include "tests/ops/cuda_on_cpu.h"

namespace fathom::optim {
namespace {

using Tensors = std::vector<at::Tensor>;

const ops::CudaKernels& on_cpu() { return *fathom_cuda_kernels(); }

GradientNorm norm_by_kernels(const Tensors& gradients, double max_norm = 0, std::optional<double> loss_scale = {}) {
  return norm_of_sums(on_cpu(), sums_of_squares(on_cpu(), gradients), max_norm, loss_scale);
}

double norm_in_fp64(const Tensors& gradients) {
  double sum = 0;
  for (const at::Tensor& gradient : gradients) sum += gradient.to(at::kDouble).square().sum().item<double>();
  return std::sqrt(sum);
}

void expect_near(const at::Tensor& actual, double expected) {
  EXPECT_NEAR(actual.item<double>(), expected, 1e-6 * expected);
}

// Of `elements` numbers that begin so many behind where any access may.
at::Tensor draw(int64_t elements, at::ScalarType type, int64_t skipped = 0) {
  return at::randn({elements + skipped}).to(type).narrow(0, skipped, elements);
}

TEST(GradientNormByCudaKernels, IsOfAllGradientsOfBothTypesWhereverTheyBegin) {
  at::manual_seed(5);
  Tensors gradients = {at::empty({0})};
  for (const int64_t elements : {1, 3, 255, 4099, 70001}) {
    for (const int64_t skipped : {0, 1, 3, 7}) {
      for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
        gradients.push_back(draw(elements, type, skipped));
        expect_near(sums_of_squares(on_cpu(), {gradients.back()}).sum(at::kDouble).sqrt(),
                    norm_in_fp64({gradients.back()}));
      }
    }
  }
  played_launches = 0;
  const GradientNorm norm = norm_by_kernels(gradients);
  EXPECT_EQ(played_launches, 2);
  expect_near(norm.total, norm_in_fp64(gradients));
  EXPECT_FALSE(norm.factor.defined());
}

TEST(GradientNormByCudaKernels, HasASumForEachChunkOfEachGradient) {
  const int64_t chunk = ops::kSquaresPerSum;
  const Tensors gradients = {at::ones({2 * chunk + 1}), at::full({5}, 2.0).to(at::kBFloat16), at::zeros({chunk})};
  const auto whole = static_cast<float>(chunk);
  EXPECT_TRUE(sums_of_squares(on_cpu(), gradients).equal(at::tensor({whole, whole, 1.0F, 20.0F, 0.0F})));
}

TEST(GradientNormByCudaKernels, TakesMoreGradientsThanALaunch) {
  Tensors gradients;
  for (int i = 0; i < 600; ++i) gradients.push_back(at::full({3}, static_cast<float>(i % 7)));
  played_launches = 0;
  const GradientNorm norm = norm_by_kernels(gradients);
  EXPECT_EQ(played_launches, 3);
  expect_near(norm.total, norm_in_fp64(gradients));
}

// Sums that were made one gradient at a time are those of all together.
TEST(GradientNormByCudaKernels, HasTheSameBitsOfGradientsThatComeOneAtATime) {
  at::manual_seed(6);
  const Tensors gradients = {draw(90001, at::kFloat), draw(17, at::kBFloat16, 1), draw(4096, at::kFloat, 1)};
  Tensors sums;
  for (const at::Tensor& gradient : gradients) sums.push_back(sums_of_squares(on_cpu(), {gradient}));
  EXPECT_TRUE(at::cat(sums).equal(sums_of_squares(on_cpu(), gradients)));
}

TEST(GradientNormByCudaKernels, GivesTheTotalAndTheFactorThatOperatorsGive) {
  for (const double size : {0.125, 3.0}) {
    const Tensors gradients = {at::full({4}, size), at::full({7}, size)};
    for (const double max_norm : {0.0, 0.5, 100.0}) {
      for (const std::optional<double>& loss_scale : {std::optional<double>(), std::optional(64.0)}) {
        const GradientNorm expected = gradient_norm(gradients, max_norm, loss_scale);
        const GradientNorm norm = norm_by_kernels(gradients, max_norm, loss_scale);
        expect_near(norm.total, expected.total.item<double>());
        ASSERT_EQ(norm.factor.defined(), expected.factor.defined());
        if (norm.factor.defined()) expect_near(norm.factor, expected.factor.item<double>());
      }
    }
  }
}

TEST(GradientNormByCudaKernels, IsNotFiniteWhereAGradientIsNot) {
  for (const double number : {NAN, INFINITY, -INFINITY}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      at::Tensor gradient = at::ones({70000}, type);
      gradient[69999] = number;
      const GradientNorm norm = norm_by_kernels({at::ones({3}), gradient}, 1, 64);
      EXPECT_FALSE(std::isfinite(norm.total.item<double>()));
      EXPECT_NE(norm.factor.item<double>(), 1.0 / 64);
    }
  }
  EXPECT_TRUE(norm_by_kernels({at::full({3}, NAN)}, 1).factor.isnan().item<bool>());
}

TEST(GradientNormByCudaKernels, IsZeroOfNothing) {
  const GradientNorm norm = norm_by_kernels({at::empty({0}), at::zeros({4})}, 1);
  EXPECT_EQ(norm.total.item<double>(), 0);
  EXPECT_EQ(norm.factor.item<double>(), 1);
  EXPECT_EQ(norm_by_kernels({at::empty({0})}).total.item<double>(), 0);
}

TEST(GradientNormByCudaKernels, TakeNoGradientsOfTheCPU) {
  EXPECT_EQ(norm_kernels_for({at::ones({3})}), nullptr);
  EXPECT_EQ(norm_kernels_for({}), nullptr);
}

}  // namespace
}  // namespace fathom::optim
