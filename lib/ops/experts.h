// The experts of a feed-forward part, gated by silu: what those that a router chose make of each token, weighed and
// added up.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/autocast.h"
#include "ops/linear/linear.h"
#include "ops/routing.h"

namespace fathom::ops {

// Matrices of all experts, one below the other, [N * O, I].
struct ExpertStack {
  at::Tensor stored;                                        // undefined: quantized
  std::optional<QuantizedMatrix> quantized = std::nullopt;  // frozen
  // As PEFT stacks those of the experts: A is [R * N, I], an expert's R rows together; B is [O, R * N], in whose
  // columns the experts take turns. Multiplied in the type of the other products, as PEFT does it.
  std::optional<LoraAdapter> adapter = std::nullopt;
  at::Tensor cast = {};  // ComputeScope::weight
};

struct ExpertMatrices {
  int64_t count = 0;
  ExpertStack gate_up;  // of each expert the rows of the gate, then those of the up projection
  ExpertStack down;
};

// Keeps for the backward pass gate and up of each row, and x (LinearInput says how) where the gate and up projections
// or their adapter need a gradient; of adapters x A^T. A row's weight is multiplied into what the down projection
// reads, so that what that makes is not needed again.
at::Tensor experts(const LinearInput& input, const Routes& routes, const ExpertMatrices& matrices,
                   const ComputeScope& compute);

}  // namespace fathom::ops
