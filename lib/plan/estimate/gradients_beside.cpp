// By the order of layers.
#include "plan/estimate/gradients_beside.h"

#include <iterator>

namespace fathom::plan {

Beside gradients_beside(const BatchOperators& batch, const Operator& each, int64_t layer, bool checkpoints) {
  Beside beside;
  const BatchOperators::Stack& stack = batch.stack_of(layer);
  beside.of_input = &stack.stream_gradient;
  if (!each.takes_stream_gradient) beside.stream = &stack.stream_gradient;
  if (checkpoints && each.another_follows) beside.output = &stack.output_gradient;
  if (layer != batch.encoder_layers && layer < std::ssize(batch.layers)) beside.biases = &stack.bias_sums;
  if (layer <= batch.encoder_layers) return beside;
  if (layer < std::ssize(batch.layers)) beside.source_above = &batch.encoded_gradient;
  if (each.follows_source && (checkpoints || beside.source_above == nullptr)) {
    beside.source_here = &batch.encoded_gradient;
  }
  return beside;
}

}  // namespace fathom::plan
