// What an optimizer's update goes over.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace fathom::optim {

// A parameter or a part of one, contiguous, its gradient of the same shape, and what is kept of it.
struct Updated {
  at::Tensor parameter, gradient;
  std::vector<at::Tensor> states;  // in the order in which the optimizer adds them
  std::vector<int64_t> blocks;     // of how many numbers of the parameter each number of a state is
  bool decays = false;
  int64_t place = 0;   // of the parameter, among those that are trained
  int64_t origin = 0;  // the element of the whole parameter that it begins with: the first of a block of moments
};

}  // namespace fathom::optim
