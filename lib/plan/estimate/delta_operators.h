// The operators of a layer with the gated delta rule, of a layer over one batch.
#pragma once

#include "plan/estimate/layer_operators.h"

namespace fathom::plan {

footprint::Footprint delta_rule(const LayerSubject& subject);
// Of what it computes with: its taps, rates and biases.
footprint::Tensors gradients_of_delta(const LayerSubject& subject);

}  // namespace fathom::plan
