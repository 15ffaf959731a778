// What the tests of AdamW in several types share: how a run keeps its parameters, and all that it then has.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <ostream>
#include <vector>

#include "optim/mixed_adamw.h"

namespace fathom::optim {

struct Kind {
  const char* name;
  at::ScalarType weights;
  footprint::MomentStorage moments;
  config::MasterWeights masters;
};
inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

struct MixedRun {
  // Parameters, then states.
  std::vector<at::Tensor> everything() const {
    std::vector<at::Tensor> all;
    for (const at::Tensor& parameter : parameters) all.push_back(parameter.detach());
    for (const auto& [name, tensor] : optimizer->state()) all.push_back(tensor);
    return all;
  }

  std::vector<at::Tensor> parameters;
  std::unique_ptr<MixedAdamW> optimizer;
};

}  // namespace fathom::optim
