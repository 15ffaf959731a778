// What the operators of a layer's experts take from its parameters.
#pragma once

#include <string>
#include <vector>

#include "arch/architecture.h"
#include "arch/casts.h"
#include "arch/parameter_table.h"
#include "footprint/experts.h"

namespace fathom::plan {

// rows: of the layer; casts: of those that come as such. What needs gradients besides is the caller's to say.
footprint::ExpertSizes expert_sizes(const arch::FeedForward& feed_forward, int64_t width,
                                    const std::vector<const arch::ParameterRow*>& rows, const arch::Casts& casts);

// Of one of the two stacks, ".down_proj" of "mlp.experts", of its biases and of its adapter.
footprint::Tensors gradients_of_stack(const std::vector<const arch::ParameterRow*>& rows, const std::string& module,
                                      const std::string& which);

}  // namespace fathom::plan
