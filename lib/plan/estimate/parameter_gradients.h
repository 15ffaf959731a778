// Which parameters belong to a module of the model, and what their gradients take.
#pragma once

#include <string_view>
#include <vector>

#include "arch/parameter_table.h"
#include "footprint/footprint.h"

namespace fathom::plan {

// Whether it is of a module by this name, "SelfAttention.k".
bool belongs_to(const arch::ParameterRow& row, std::string_view module);

// The gradients of a module's trained parameters.
footprint::Tensors gradients_of(const std::vector<const arch::ParameterRow*>& rows, std::string_view module);
footprint::Bytes gradient_of(const arch::ParameterRow& row);

}  // namespace fathom::plan
