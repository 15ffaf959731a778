// What the losses of a step's micro-batches add up to, over all processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "dist/group.h"

namespace fathom::train {

class LossSum {
 public:
  // group: null for a process alone. most: micro-batches that a process may have in a step.
  explicit LossSum(dist::Group* group, int64_t most = 1) : group_(group), most_(most) {}
  // The next micro-batch's of this process, an FP32 scalar on the device, times `share`.
  void add(const at::Tensor& loss, double share = 1);
  // Of all; micro_batches: of all. 0 where there was none. Every process calls it, once.
  double take_total(int64_t micro_batches);

 private:
  dist::Group* group_;
  int64_t most_;
  // One running sum, or where there are other processes one list, so that every micro-batch after the first finds the
  // memory as the one before it did.
  at::Tensor sum_;
  at::Tensor each_;  // [most], on the device: the process does not wait for each
  int64_t count_ = 0;
};

}  // namespace fathom::train
