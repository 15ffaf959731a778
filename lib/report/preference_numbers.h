// What runs that learn from preferences report beside what all do, under TRL's names.
#pragma once

#include <array>
#include <string_view>

namespace fathom::report {

// Rewards are beta times what log-probabilities gained on the reference's. An accuracy counts preferences whose chosen
// answer has the greater reward; of equal ones none is.
inline constexpr std::string_view kChosenReward = "rewards/chosen", kRejectedReward = "rewards/rejected",
                                  kRewardAccuracy = "rewards/accuracies", kRewardMargin = "rewards/margins";
inline constexpr std::array<std::string_view, 6> kPreferenceNumbers = {
    kChosenReward, kRejectedReward, kRewardAccuracy, kRewardMargin, "logps/chosen", "logps/rejected"};

}  // namespace fathom::report
