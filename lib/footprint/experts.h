// What experts and their router keep and take, by their sizes: the same whatever is chosen.
#pragma once

#include <cstdint>
#include <optional>

#include "base/router_scores.h"
#include "footprint/footprint.h"
#include "quant/layout.h"

namespace fathom::footprint {

// One of the two stacks of a layer's experts.
struct StackSizes {
  bool trained = false;
  int64_t rank = 0;  // of its adapter, for each expert; 0: it has none
  std::optional<quant::Scheme> codes = std::nullopt;
  bool comes_cast = false;     // no copies are made of its matrices
  bool trains_biases = false;  // where there are some
  bool keeps_input() const { return trained || rank > 0; }
};

struct ExpertSizes {
  int64_t count = 0, per_token = 0;  // N, K
  int64_t width = 0, inner = 0;      // D, F
  StackSizes gate_up, down;
  bool biased = false;   // each expert adds biases
  bool clamped = false;  // ops/clamped_gate.h, else gated by silu
  RouterScores scores = {};
  bool makes_input_again = false;
  bool input_needs_gradient = true;
};

// A router's scores and choice, behind its linear layer.
Footprint routing_footprint(const StepSizes& step, const ExpertSizes& sizes);
// The products by which gate and up are made, with the rows that are gathered for them.
Footprint expert_gate_up_footprint(const StepSizes& step, const ExpertSizes& sizes);
// From gate and up to the sum over the chosen experts.
Footprint expert_down_footprint(const StepSizes& step, const ExpertSizes& sizes);

}  // namespace fathom::footprint
