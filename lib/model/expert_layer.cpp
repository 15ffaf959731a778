// The router is a linear layer like any other; its scores are in FP32.
#include "model/expert_layer.h"

#include "ops/routing.h"

namespace fathom::model {

at::Tensor run_experts(const ExpertWeights& weights, const ops::LinearInput& x_TD, const ops::ModuleNames& names,
                       const std::shared_ptr<ops::Balance>& balance, const ops::ComputeScope& compute) {
  const arch::Experts& spec = weights.spec;
  const ops::Router router{spec.count, spec.per_token, spec.normalised, spec.biased, spec.scores};
  const ops::Routes routes = ops::route(ops::linear(x_TD, weights.router, compute, /*training=*/false), router,
                                        weights.corrections_N, balance);
  names.backward(routes.weights_TK, weights.router_module);
  names.forward(weights.module);
  return ops::experts(x_TD, routes, weights.matrices, compute);
}

}  // namespace fathom::model
