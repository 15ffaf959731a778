// What a run makes smaller: the objectives and the losses of preferences, one row each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace fathom::config {

enum class Objective { kSft, kDpo, kSimpo };
enum class LossType {
  kSigmoid,
  kCdpo,
  kHinge,
  kIpo,
  kRobust,
  kExoPair,
  kNcaPair,
  kBcoPair,
  kSppoHard,
  kApoZero,
  kApoDown,
  kSigmoidNorm,
};
enum class Smoothing { kNone, kMayBe, kMustBe };  // what a loss does with label_smoothing; kMustBe: above 0

struct ObjectiveRow {
  Objective objective;
  std::string_view name;
  int64_t rows;          // sequences of an example, which have one prompt: 1, or 2 of a preference
  bool needs_reference;  // log-probabilities of these by the model as the run starts
  constexpr bool learns_preferences() const { return rows == 2; }
};

inline constexpr ObjectiveRow kObjectives[] = {
    {Objective::kSft, "sft", 1, false},
    {Objective::kDpo, "dpo", 2, true},
    {Objective::kSimpo, "simpo", 2, false},
};

// Of preferences held against a reference; the formulas are in lib/ops/preference_loss.cpp.
struct LossTypeRow {
  LossType type;
  std::string_view name;
  Smoothing smoothing = Smoothing::kNone;
};

inline constexpr LossTypeRow kLossTypes[] = {
    {LossType::kSigmoid, "sigmoid"},
    {LossType::kCdpo, "cdpo", Smoothing::kMayBe},
    {LossType::kHinge, "hinge"},
    {LossType::kIpo, "ipo"},
    {LossType::kRobust, "robust", Smoothing::kMayBe},
    {LossType::kExoPair, "exo_pair", Smoothing::kMustBe},
    {LossType::kNcaPair, "nca_pair"},
    {LossType::kBcoPair, "bco_pair"},
    {LossType::kSppoHard, "sppo_hard"},
    {LossType::kApoZero, "apo_zero"},
    {LossType::kApoDown, "apo_down"},
    {LossType::kSigmoidNorm, "sigmoid_norm"},
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
