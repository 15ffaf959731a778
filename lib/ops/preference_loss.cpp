// The formulas, one row each, on as many numbers as a batch has preferences.
#include "ops/preference_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>

namespace fathom::ops {
namespace {

// What log-probabilities gained on the reference's, of P preferences, with the lengths of the answers.
struct Gains {
  at::Tensor chosen_P, rejected_P, chosen_length_P, rejected_length_P;
  at::Tensor difference() const { return chosen_P - rejected_P; }
};

at::Tensor minus_log_sigmoid(const at::Tensor& x) { return at::softplus(-x); }

struct Formula {
  config::LossType type;
  at::Tensor (*loss_P)(const Gains& gains, const PreferenceOptions& options);
};

// The gain of chosen over rejected is x / beta in all but ipo.
constexpr Formula kFormulas[] = {
    // Rafailov et al. 2023, arXiv 2305.18290: -log sigmoid(x)
    {config::LossType::kSigmoid,
     [](const Gains& gains, const PreferenceOptions& options) {
       return minus_log_sigmoid(gains.difference() * options.beta);
     }},
    // Liu et al. 2023, arXiv 2309.06657: max(0, 1 - x)
    {config::LossType::kHinge,
     [](const Gains& gains, const PreferenceOptions& options) {
       return at::clamp_min(1 - gains.difference() * options.beta, 0);
     }},
    // Azar et al. 2023, arXiv 2310.12036, by tokens as its authors advise: (gain of chosen - of rejected - 1/(2
    // beta))^2
    {config::LossType::kIpo,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor by_tokens_P =
           gains.chosen_P / gains.chosen_length_P - gains.rejected_P / gains.rejected_length_P;
       return at::square(by_tokens_P - 1 / (2 * options.beta));
     }},
    // Chowdhury et al. 2024, arXiv 2403.00409: (-(1 - e) log sigmoid(x) + e log sigmoid(-x)) / (1 - 2 e)
    {config::LossType::kRobust,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor x_P = gains.difference() * options.beta;
       const double share = options.label_smoothing;
       return (minus_log_sigmoid(x_P) * (1 - share) - minus_log_sigmoid(-x_P) * share) / (1 - 2 * share);
     }},
};

static_assert(std::size(kFormulas) == std::size(config::kLossTypes), "each word has its formula");

at::Tensor numbers_of(const at::Tensor& logps_P2, const at::Tensor& gains_P2, double beta) {
  const at::NoGradGuard no_gradients;
  const at::Tensor rewards_P2 = gains_P2 * beta;
  const at::Tensor right = (rewards_P2.select(1, 0) > rewards_P2.select(1, 1)).to(at::kFloat).sum(0, true);
  const at::Tensor rewards_2 = rewards_P2.sum(0);
  return at::cat({rewards_2, right, rewards_2.narrow(0, 0, 1) - rewards_2.narrow(0, 1, 1), logps_P2.sum(0)});
}

}  // namespace

PreferenceLoss preference_loss(const at::Tensor& logps_B, const at::Tensor& reference_B, const at::Tensor& lengths_B,
                               double denominator, const PreferenceOptions& options) {
  const at::Tensor gains_P2 = (logps_B - reference_B).view({-1, 2}), lengths_P2 = lengths_B.view({-1, 2});
  const Gains gains{gains_P2.select(1, 0), gains_P2.select(1, 1), lengths_P2.select(1, 0), lengths_P2.select(1, 1)};
  const Formula& formula = *std::find_if(std::begin(kFormulas), std::end(kFormulas),
                                         [&](const Formula& each) { return each.type == options.type; });
  const at::Tensor loss = formula.loss_P(gains, options).sum() / denominator;
  return {loss, numbers_of(logps_B.view({-1, 2}), gains_P2, options.beta)};
}

}  // namespace fathom::ops
