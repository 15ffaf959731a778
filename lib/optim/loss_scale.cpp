// Doubles after many good steps, halves after a bad one.
#include "optim/loss_scale.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::optim {
namespace {

constexpr double kGrowth = 2, kBackoff = 0.5;
constexpr double kLargest = std::numeric_limits<float>::max();  // the scale multiplies FP32

}  // namespace

void LossScale::count_good() {
  unsettled_ = 0;
  if (++good_steps_ < kGrowthInterval) return;
  good_steps_ = 0;
  if (value_ * kGrowth <= kLargest) value_ *= kGrowth;
}

void LossScale::count_skipped(bool loss_is_finite) {
  good_steps_ = 0;
  unsettled_ += loss_is_finite ? 1 : 2;
  ++skipped_steps_;
  value_ *= kBackoff;
}

Json LossScale::to_json() const {
  return {{"value", value_}, {"good_steps", good_steps_}, {"skipped_steps", skipped_steps_}, {"unsettled", unsettled_}};
}

LossScale LossScale::from_json(const Json& state) {
  LossScale scale;
  scale.good_steps_ = count_at(state, "good_steps");
  scale.skipped_steps_ = count_at(state, "skipped_steps");
  const int64_t unknown = scale.good_steps_ > 0 ? 0 : 1;  // checkpoints of before did not say
  scale.unsettled_ = state.contains("unsettled") ? count_at(state, "unsettled") : unknown;
  scale.value_ = state.contains("value") && state.at("value").is_number() ? state.at("value").get<double>() : 0;
  int exponent = 0;
  const bool power_of_two = scale.value_ > 0 && scale.value_ <= kLargest && std::frexp(scale.value_, &exponent) == 0.5;
  if (!power_of_two || scale.good_steps_ >= kGrowthInterval) {
    throw Error("the checkpoint's loss scale is none that training makes: " + state.dump());
  }
  return scale;
}

}  // namespace fathom::optim
