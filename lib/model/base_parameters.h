// The parameters of a base, as they are stored: filled from a folder or drawn at random.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "arch/architecture.h"
#include "model/units.h"
#include "ops/quantized/fake_quantize.h"
#include "ops/quantized/quantized_matrix.h"
#include "weights/folder.h"

namespace fathom::model {

struct BaseParameter {
  arch::ParameterSpec spec;
  at::Tensor tensor = {};                              // undefined where it is quantized
  at::Tensor cast = {};                                // Parameter::cast
  std::optional<ops::QuantizedMatrix> quantized = {};  // frozen
  std::optional<ops::FakeQuantizer> quantizer = {};    // its step sizes are trained
  std::string name_of_step_sizes = {};                 // as the folder has them
};

// Fills every parameter from the folder, converting or quantizing while copying; codes that the folder stores are
// copied as they are. Throws Error for a missing tensor, a wrong shape, or a left-over one. Step sizes that the
// folder does not have begin where rounding would be. units: who keeps them, if they are kept elsewhere; else null.
void load_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture,
               const weights::ModelFolder& folder, UnitKeeper* units);
// Draws them as transformers would: matrices, sinks and the biases of routers from normal distributions
// (ParameterSpec::initial_std), the rates of decays between 0.01 and 16, norms and what is added to decays one, other
// biases zero. What a folder would store in codes becomes zeros: a plan's stand-in for reading them.
void initialise_base(const std::vector<BaseParameter>& base, const arch::Architecture& architecture, UnitKeeper* units);

}  // namespace fathom::model
