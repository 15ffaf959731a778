// What the operators of a layer's projections take from its parameters.
#pragma once

#include <string_view>

#include "footprint/linear.h"
#include "plan/estimate/layer_operators.h"

namespace fathom::plan {

// Of a projection, a router or a stack of experts, by its module within the layer ("self_attn.q_proj"). What its input
// is besides is the caller's to say.
footprint::LinearSizes linear_sizes(const LayerSubject& subject, std::string_view module);

}  // namespace fathom::plan
