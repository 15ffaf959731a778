// Losses of preferences against their formulas in FP64, and their gradients against differences.
#include "ops/preference_loss.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/token_logprobs.h"
#include "report/preference_numbers.h"

namespace fathom::ops::preference_loss_test {
namespace {

struct Pair {
  double chosen, rejected, chosen_length, rejected_length;
};

double log_sigmoid(double x) { return -std::log1p(std::exp(-x)); }

double formula(const Pair& gains, const PreferenceOptions& options) {
  using enum config::LossType;
  const double beta = options.beta, share = options.label_smoothing, c = gains.chosen, r = gains.rejected;
  const double x = beta * (c - r), by_tokens = c / gains.chosen_length - r / gains.rejected_length;
  const auto sigmoid = [](double of) { return 1 / (1 + std::exp(-of)); };
  switch (options.type) {
    case kSigmoid:
      return -log_sigmoid(x);
    case kCdpo:
      return -(1 - share) * log_sigmoid(x) - share * log_sigmoid(-x);
    case kHinge:
      return std::max(0.0, 1 - x);
    case kIpo:
      return std::pow(by_tokens - 1 / (2 * beta), 2);
    case kRobust:
      return (-(1 - share) * log_sigmoid(x) + share * log_sigmoid(-x)) / (1 - 2 * share);
    case kExoPair:
      return sigmoid(x) * std::log(sigmoid(x) / (1 - share)) + sigmoid(-x) * std::log(sigmoid(-x) / share);
    case kNcaPair:
      return -log_sigmoid(beta * c) - log_sigmoid(-beta * c) / 2 - log_sigmoid(-beta * r) / 2;
    case kBcoPair:
      return -log_sigmoid(beta * c) - log_sigmoid(-beta * r);
    case kSppoHard:
      return std::pow(c - 0.5 / beta, 2) + std::pow(r + 0.5 / beta, 2);
    case kApoZero:
      return 1 - sigmoid(beta * c) + sigmoid(beta * r);
    case kApoDown:
      return sigmoid(beta * c) + 1 - sigmoid(x);
    case kSigmoidNorm:
      return -log_sigmoid(beta * by_tokens);
  }
  return NAN;
}

const std::vector<float> kLogps = {-3, -5, -20, -11, -7.5, -7.5}, kReference = {-4, -4.5, -19, -13, -7.5, -7.5},
                         kLengths = {2, 3, 9, 4, 5, 5};

at::Tensor tensor(const std::vector<float>& values) { return at::tensor(values, at::kFloat); }

double expected(const std::vector<float>& logps, double denominator, const PreferenceOptions& options) {
  double sum = 0;
  for (size_t i = 0; i < logps.size(); i += 2) {
    sum += formula(
        {double{logps[i]} - kReference[i], double{logps[i + 1]} - kReference[i + 1], kLengths[i], kLengths[i + 1]},
        options);
  }
  return sum / denominator;
}

TEST(PreferenceLoss, IsItsFormulaWithItsGradient) {
  for (const config::LossTypeRow& row : config::kLossTypes) {
    const PreferenceOptions options{config::Objective::kDpo, row.type, 0.3,
                                    row.smoothing == config::Smoothing::kNone ? 0 : 0.2};
    const at::Tensor logps = tensor(kLogps).requires_grad_();
    const PreferenceLoss result = preference_loss(logps, tensor(kReference), tensor(kLengths), 5, options);
    EXPECT_NEAR(result.loss.item<double>(), expected(kLogps, 5, options), 1e-6) << row.name;
    torch::autograd::backward({result.loss}, {});
    for (size_t i = 0; i < kLogps.size(); ++i) {
      constexpr float kStep = 1.0F / 1024;
      std::vector<float> above = kLogps, below = kLogps;
      above[i] += kStep;
      below[i] -= kStep;
      const double slope = (expected(above, 5, options) - expected(below, 5, options)) / (2 * kStep);
      EXPECT_NEAR(logps.grad()[static_cast<int64_t>(i)].item<double>(), slope, 1e-5) << row.name << " " << i;
    }
  }
}

TEST(PreferenceLoss, OfSimpoIsByTokenAndWithoutAReference) {
  const PreferenceOptions options{.objective = config::Objective::kSimpo, .beta = 2, .simpo_gamma = 0.5};
  const at::Tensor logps = tensor(kLogps).requires_grad_();
  const PreferenceLoss result = preference_loss(logps, at::full({6}, NAN), tensor(kLengths), 1, options);
  // By token: -1.5 and -5/3, -20/9 and -2.75, -1.5 and -1.5.
  const double expected =
      -log_sigmoid(2 * (5.0 / 3 - 1.5) - 0.5) - log_sigmoid(2 * (2.75 - 20.0 / 9) - 0.5) - log_sigmoid(-0.5);
  EXPECT_NEAR(result.loss.item<double>(), expected, 1e-6);
  EXPECT_NEAR(result.numbers_K[2].item<double>(), 2, 0) << "the first of three pairs leads in two";
  torch::autograd::backward({result.loss}, {});
  EXPECT_NEAR(logps.grad()[4].item<double>(), -2.0 / 5 / (1 + std::exp(-0.5)), 1e-6);
}

TEST(PreferenceLoss, ReportsSumsOverPreferences) {
  const PreferenceOptions options{config::Objective::kDpo, config::LossType::kSigmoid, 0.5};
  const at::Tensor numbers =
      preference_loss(tensor(kLogps), tensor(kReference), tensor(kLengths), 1, options).numbers_K;
  // Gains: 1 and -0.5, -1 and 2, 0 and 0, which is no right one.
  const std::vector<double> sums = {0.0, 0.75, 1, -0.75, -30.5, -23.5};
  ASSERT_EQ(numbers.numel(), std::ssize(report::kPreferenceNumbers));
  for (size_t i = 0; i < sums.size(); ++i) {
    EXPECT_NEAR(numbers[static_cast<int64_t>(i)].item<double>(), sums[i], 1e-6) << report::kPreferenceNumbers[i];
  }
}

TEST(SequenceSums, AddUpWhatIsPicked) {
  const at::Tensor values = at::tensor({1.0F, 2.0F, 4.0F, 8.0F}).requires_grad_(), rows = at::tensor({0L, 2L, 4L, 5L});
  const at::Tensor sums = sequence_sums(values, rows, 2, 3);
  EXPECT_TRUE(at::equal(sums, at::tensor({3.0F, 12.0F})));
  torch::autograd::backward({(sums * at::tensor({10.0F, 100.0F})).sum()}, {});
  EXPECT_TRUE(at::equal(values.grad(), at::tensor({10.0F, 10.0F, 100.0F, 100.0F})));
  EXPECT_TRUE(at::equal(sequence_sums(values.detach(), {}, 2, 2), at::tensor({3.0F, 12.0F})));
}

}  // namespace
}  // namespace fathom::ops::preference_loss_test
