// The experts of a feed-forward part, gated by silu or as gpt-oss gates them: what those that a router chose make of
// each token, weighed and added up.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "base/activation.h"
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
  at::Tensor cast = {};    // ComputeScope::weight
  at::Tensor biases = {};  // of all experts, one after the other, [N * O]; undefined: none
};

struct ExpertMatrices {
  int64_t count = 0;
  // Of each expert the rows of the gate, then those of the up projection; where these are clamped they take turns.
  ExpertStack gate_up;
  ExpertStack down;
  std::optional<ClampedGate> clamped = std::nullopt;
};

// Keeps for the backward pass gate and up of each row, and x (LinearInput says how) where the gate and up projections
// or their adapter need a gradient; of adapters x A^T. A row's weight is multiplied into what the down projection
// reads, so that what that makes is not needed again, and into its bias. routes: with experts_R where there are biases.
at::Tensor experts(const LinearInput& input, const Routes& routes, const ExpertMatrices& matrices,
                   const ComputeScope& compute);

}  // namespace fathom::ops
