// Dynamic loss scaling (Micikevicius et al. 2017, arXiv 1710.03740) with the numbers of torch.amp.GradScaler: gradients
// in FP16 are made of a loss so many times as large, so that small ones do not round to zero.
#pragma once

#include <cstdint>

#include "base/json.h"

namespace fathom::optim {

class LossScale {
 public:
  static constexpr double kFirst = 65536;           // 2^16
  static constexpr int64_t kGrowthInterval = 2000;  // steps in a row with finite gradients, then it doubles

  // What the loss of the next step is multiplied by; a power of two, so that dividing by it is exact.
  double value() const { return value_; }
  int64_t good_steps() const { return good_steps_; }  // in a row, since the value changed
  int64_t skipped_steps() const { return skipped_steps_; }
  // At 1 or below no gradient overflows because of the scale.
  bool can_back_off() const { return value_ > 1; }
  // Of the last steps: one that is skipped after others that were good is what a scale that has doubled costs, or a
  // rare batch. Two in a row, the first of all, or one whose loss itself is not finite, which no scale is to blame for,
  // say that training does not go on.
  bool settled() const { return unsettled_ < 2; }

  // After a step whose gradients were finite, and after one that was skipped because they or the loss were not.
  void count_good();
  void count_skipped(bool loss_is_finite = true);

  Json to_json() const;
  // Throws Error for what to_json does not write.
  static LossScale from_json(const Json& state);

 private:
  double value_ = kFirst;
  int64_t good_steps_ = 0, skipped_steps_ = 0;
  int64_t unsettled_ = 1;  // no step yet was good
};

}  // namespace fathom::optim
