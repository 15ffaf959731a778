// What the losses of a step's micro-batches add up to, over all processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "dist/group.h"

namespace fathom::train {

class LossSum {
 public:
  // group: null for a process alone.
  explicit LossSum(dist::Group* group) : group_(group) {}
  // The next micro-batch's of this process, an FP32 scalar on the device, times `share`.
  void add(const at::Tensor& loss, double share = 1);
  // Of all; micro_batches: of all. 0 where there was none. Every process calls it, once.
  double take_total(int64_t micro_batches);

 private:
  dist::Group* group_;
  // One running sum, so that every micro-batch after the first finds the memory as the one before it did.
  at::Tensor sum_;
  std::vector<double> each_;  // where there are other processes
};

}  // namespace fathom::train
