// Which gradients are there beside those of an operator while its backward pass runs.
#pragma once

#include <cstdint>

#include "plan/estimate/step_operators.h"

namespace fathom::plan {

// Of the residual stream, of a layer's output, of what an encoder made: by the layers above, by this one; of biases.
// Null: none. Parts of the batch that they were asked of.
struct Beside {
  const footprint::Tensors *stream = nullptr, *output = nullptr, *source_above = nullptr, *source_here = nullptr;
  const footprint::Tensors* biases = nullptr;
  const footprint::Tensors* of_input = nullptr;  // the operator's own, once it is made
};

// What a checkpointed layer makes is added to what is there when all of it is made, else at once.
Beside gradients_beside(const BatchOperators& batch, const Operator& each, int64_t layer, bool checkpoints);

}  // namespace fathom::plan
