// What the update of one parameter takes, where each is made by itself (config optimizer_in_backward).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "config/run_config.h"
#include "footprint/footprint.h"
#include "plan/estimate/step_operators.h"

namespace fathom::plan {

class SingleUpdates {
 public:
  // The run lives as long as this.
  SingleUpdates(const config::RunConfig& run, bool cuda) : run_(run), cuda_(cuda) {}
  // Of an operator's parameters one by one, whose gradients are as gradient_of has them. What is given out stays where
  // it is.
  std::vector<const footprint::Tensors*> of(const Operator& each);

 private:
  const std::vector<footprint::Tensors>& of_parameter(const footprint::Bytes& gradient);

  const config::RunConfig& run_;
  bool cuda_;
  std::map<std::array<int64_t, 3>, std::vector<footprint::Tensors>> by_sizes_;
};

}  // namespace fathom::plan
