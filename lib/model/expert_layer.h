// The feed-forward part of a layer that has experts: a router, and what those make that it chooses.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "arch/architecture.h"
#include "ops/autocast.h"
#include "ops/balance.h"
#include "ops/experts.h"
#include "ops/linear/linear.h"
#include "ops/module_names.h"

namespace fathom::model {

struct ExpertWeights {
  arch::Experts spec;
  const char *router_module, *module;  // within the layer
  ops::Linear router;
  ops::ExpertMatrices matrices;
  at::Tensor corrections_N = {};  // RouterScores::corrected
};

// Of x_TD, [T, D]. balance: null where routers add nothing to the loss.
at::Tensor run_experts(const ExpertWeights& weights, const ops::LinearInput& x_TD, const ops::ModuleNames& names,
                       const std::shared_ptr<ops::Balance>& balance, const ops::ComputeScope& compute);

}  // namespace fathom::model
