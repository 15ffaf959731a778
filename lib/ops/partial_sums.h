// Sums over rows that threads make for themselves.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "ops/rows.h"

namespace fathom::ops {

// One partial sum for each share of the rows, added in order: the same result in every run with as many threads.
class PartialSums {
 public:
  PartialSums(bool wanted, int64_t shares, int64_t width)
      : width_(width), sums_(wanted ? static_cast<size_t>(shares * width) : 0) {}
  float* share(int64_t index) { return sums_.empty() ? nullptr : sums_.data() + index * width_; }
  void add_up_into(const at::Tensor& sum_D) {
    if (sums_.empty()) return;
    for (size_t i = static_cast<size_t>(width_); i < sums_.size(); ++i) sums_[i % width_] += sums_[i];
    cpu::convert({sums_.data(), cpu::RowType::kF32}, rows(sum_D), 0, width_);
  }

 private:
  int64_t width_;
  std::vector<float> sums_;
};

}  // namespace fathom::ops
