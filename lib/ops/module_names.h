// Tells the ledger which part of the model runs, forward and backward, so that timelines and errors can name it.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "ledger/ledger.h"

namespace fathom::ops {

class ModuleNames {
 public:
  ModuleNames() = default;
  // prefix: "model.layers.3."; ledger: may be null, then nothing is told.
  ModuleNames(ledger::Ledger* ledger, std::string prefix) : ledger_(ledger), prefix_(std::move(prefix)) {}

  // From here on `part` runs ("mlp.up_proj").
  void forward(const char* part) const;
  // Once the gradient of `output` is there, `part` runs backward. Nothing where it needs no gradient.
  void backward(const at::Tensor& output, const char* part) const;

 private:
  ledger::Ledger* ledger_ = nullptr;
  std::string prefix_;
};

}  // namespace fathom::ops
