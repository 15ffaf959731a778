// The router is a linear layer like any other; its softmax is in FP32.
#include "model/expert_layer.h"

#include "ops/routing.h"

namespace fathom::model {

at::Tensor run_experts(const ExpertWeights& weights, const ops::LinearInput& x_TD, const ops::ModuleNames& names,
                       const std::shared_ptr<ops::Balance>& balance, const ops::ComputeScope& compute) {
  const ops::Router router{weights.spec.count, weights.spec.per_token, weights.spec.normalised, weights.spec.biased};
  const ops::Routes routes =
      ops::route(ops::linear(x_TD, weights.router, compute, /*training=*/false), router, balance);
  names.backward(routes.weights_TK, weights.router_module);
  names.forward(weights.module);
  return ops::experts(x_TD, routes, weights.matrices, compute);
}

}  // namespace fathom::model
