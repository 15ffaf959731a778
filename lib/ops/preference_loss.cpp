// The formulas, one row each, on as many numbers as a batch has preferences.
#include "ops/preference_loss.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace fathom::ops {
namespace {

// What log-probabilities gained on the reference's, of P preferences, with the lengths of the answers.
struct Gains {
  at::Tensor chosen_P, rejected_P, chosen_length_P, rejected_length_P;
  at::Tensor difference() const { return chosen_P - rejected_P; }
  at::Tensor difference_by_tokens() const { return chosen_P / chosen_length_P - rejected_P / rejected_length_P; }
};

at::Tensor minus_log_sigmoid(const at::Tensor& x) { return at::softplus(-x); }

struct Formula {
  config::LossType type;
  at::Tensor (*loss_P)(const Gains& gains, const PreferenceOptions& options);
};

// c and r: gains of chosen and rejected; x = beta (c - r).
constexpr Formula kFormulas[] = {
    // Rafailov et al. 2023, arXiv 2305.18290: -log sigmoid(x)
    {config::LossType::kSigmoid,
     [](const Gains& gains, const PreferenceOptions& options) {
       return minus_log_sigmoid(gains.difference() * options.beta);
     }},
    // Mitchell 2023, "A note on DPO with noisy preferences": -(1 - e) log sigmoid(x) - e log sigmoid(-x)
    {config::LossType::kCdpo,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor x_P = gains.difference() * options.beta;
       const double share = options.label_smoothing;
       return minus_log_sigmoid(x_P) * (1 - share) + minus_log_sigmoid(-x_P) * share;
     }},
    // Liu et al. 2023, arXiv 2309.06657: max(0, 1 - x)
    {config::LossType::kHinge,
     [](const Gains& gains, const PreferenceOptions& options) {
       return at::clamp_min(1 - gains.difference() * options.beta, 0);
     }},
    // Azar et al. 2023, arXiv 2310.12036, by tokens as its authors advise: (c - r - 1/(2 beta))^2
    {config::LossType::kIpo,
     [](const Gains& gains, const PreferenceOptions& options) {
       return at::square(gains.difference_by_tokens() - 1 / (2 * options.beta));
     }},
    // Chowdhury et al. 2024, arXiv 2403.00409: (-(1 - e) log sigmoid(x) + e log sigmoid(-x)) / (1 - 2 e)
    {config::LossType::kRobust,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor x_P = gains.difference() * options.beta;
       const double share = options.label_smoothing;
       return (minus_log_sigmoid(x_P) * (1 - share) - minus_log_sigmoid(-x_P) * share) / (1 - 2 * share);
     }},
    // Ji et al. 2024, arXiv 2402.00856, of two answers: s (log s - log(1 - e)) + (1 - s) (log(1 - s) - log e), with
    // s = sigmoid(x)
    {config::LossType::kExoPair,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor x_P = gains.difference() * options.beta;
       const double right = std::log1p(-options.label_smoothing), wrong = std::log(options.label_smoothing);
       return at::sigmoid(x_P) * (-minus_log_sigmoid(x_P) - right) +
              at::sigmoid(-x_P) * (-minus_log_sigmoid(-x_P) - wrong);
     }},
    // Chen et al. 2024, arXiv 2402.05369: -log sigmoid(beta c) - (log sigmoid(-beta c) + log sigmoid(-beta r)) / 2
    {config::LossType::kNcaPair,
     [](const Gains& gains, const PreferenceOptions& options) {
       const at::Tensor chosen_P = gains.chosen_P * options.beta, rejected_P = gains.rejected_P * options.beta;
       return minus_log_sigmoid(chosen_P) + (minus_log_sigmoid(-chosen_P) + minus_log_sigmoid(-rejected_P)) / 2;
     }},
    // Jung et al. 2024, arXiv 2404.04656, without its shift: -log sigmoid(beta c) - log sigmoid(-beta r)
    {config::LossType::kBcoPair,
     [](const Gains& gains, const PreferenceOptions& options) {
       return minus_log_sigmoid(gains.chosen_P * options.beta) + minus_log_sigmoid(-gains.rejected_P * options.beta);
     }},
    // Wu et al. 2024, arXiv 2405.00675, of probabilities 1 and 0: (c - 1/(2 beta))^2 + (r + 1/(2 beta))^2
    {config::LossType::kSppoHard,
     [](const Gains& gains, const PreferenceOptions& options) {
       const double half = 1 / (2 * options.beta);
       return at::square(gains.chosen_P - half) + at::square(gains.rejected_P + half);
     }},
    // D'Oosterlinck et al. 2024, arXiv 2408.06266: 1 - sigmoid(beta c) + sigmoid(beta r); the chosen is to gain
    {config::LossType::kApoZero,
     [](const Gains& gains, const PreferenceOptions& options) {
       return at::sigmoid(-gains.chosen_P * options.beta) + at::sigmoid(gains.rejected_P * options.beta);
     }},
    // Likewise: sigmoid(beta c) + 1 - sigmoid(x); both are to lose
    {config::LossType::kApoDown,
     [](const Gains& gains, const PreferenceOptions& options) {
       return at::sigmoid(gains.chosen_P * options.beta) + at::sigmoid(-gains.difference() * options.beta);
     }},
    // Lambert et al. 2024, arXiv 2411.15124: -log sigmoid(beta (c / its tokens - r / its tokens))
    {config::LossType::kSigmoidNorm,
     [](const Gains& gains, const PreferenceOptions& options) {
       return minus_log_sigmoid(gains.difference_by_tokens() * options.beta);
     }},
};

static_assert(std::size(kFormulas) == std::size(config::kLossTypes), "each word has its formula");

at::Tensor loss_against_reference(const Gains& gains, const PreferenceOptions& options) {
  const Formula& formula = *std::find_if(std::begin(kFormulas), std::end(kFormulas),
                                         [&](const Formula& each) { return each.type == options.type; });
  return formula.loss_P(gains, options);
}

// rewards_P2: of both answers, of which the loss asks that the first has more.
at::Tensor numbers_of(const at::Tensor& logps_P2, const at::Tensor& rewards_P2) {
  const at::Tensor right = (rewards_P2.select(1, 0) > rewards_P2.select(1, 1)).to(at::kFloat).sum(0, true);
  const at::Tensor rewards_2 = rewards_P2.sum(0);
  return at::cat({rewards_2, right, rewards_2.narrow(0, 0, 1) - rewards_2.narrow(0, 1, 1), logps_P2.sum(0)});
}

}  // namespace

PreferenceLoss preference_loss(const at::Tensor& logps_B, const at::Tensor& reference_B, const at::Tensor& lengths_B,
                               double denominator, const PreferenceOptions& options) {
  const at::Tensor logps_P2 = logps_B.view({-1, 2}), lengths_P2 = lengths_B.view({-1, 2});
  const bool is_simpo = options.objective == config::Objective::kSimpo;
  const at::Tensor gains_P2 = is_simpo ? logps_P2 / lengths_P2 : logps_P2 - reference_B.view({-1, 2});
  const Gains gains{gains_P2.select(1, 0), gains_P2.select(1, 1), lengths_P2.select(1, 0), lengths_P2.select(1, 1)};
  // Meng et al. 2024, arXiv 2405.14734: -log sigmoid(x - gamma), of log-probabilities by token
  const at::Tensor loss_P = is_simpo ? minus_log_sigmoid(gains.difference() * options.beta - options.simpo_gamma)
                                     : loss_against_reference(gains, options);
  const at::Tensor loss = loss_P.sum() / denominator;
  const at::NoGradGuard no_gradients;
  return {loss, numbers_of(logps_P2, gains_P2 * options.beta)};
}

}  // namespace fathom::ops
