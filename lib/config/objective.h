// What a run makes smaller: the objectives and the losses of preferences, one row each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace fathom::config {

enum class Objective { kSft, kDpo };
enum class LossType { kSigmoid, kHinge, kIpo, kRobust };

struct ObjectiveRow {
  Objective objective;
  std::string_view name;
  int64_t rows;          // sequences of an example, which have one prompt: 1, or 2 of a preference
  bool needs_reference;  // log-probabilities of these by the model as the run starts
};

inline constexpr ObjectiveRow kObjectives[] = {
    {Objective::kSft, "sft", 1, false},
    {Objective::kDpo, "dpo", 2, true},
};

// Of preferences; the formulas are in lib/ops/preference_loss.cpp.
struct LossTypeRow {
  LossType type;
  std::string_view name;
  bool reads_smoothing;  // label_smoothing
};

inline constexpr LossTypeRow kLossTypes[] = {
    {LossType::kSigmoid, "sigmoid", false},
    {LossType::kHinge, "hinge", false},
    {LossType::kIpo, "ipo", false},
    {LossType::kRobust, "robust", true},
};

constexpr const ObjectiveRow& row_of(Objective objective) {
  return *std::find_if(std::begin(kObjectives), std::end(kObjectives),
                       [=](const ObjectiveRow& row) { return row.objective == objective; });
}
constexpr const LossTypeRow& row_of(LossType type) {
  return *std::find_if(std::begin(kLossTypes), std::end(kLossTypes),
                       [=](const LossTypeRow& row) { return row.type == type; });
}

}  // namespace fathom::config
