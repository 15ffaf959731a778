// The parameters of a base, as they are stored: filled from a folder or drawn at random.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "model/shape.h"
#include "ops/fake_quantize.h"
#include "ops/quantized_matrix.h"
#include "weights/folder.h"

namespace fathom::model {

struct BaseParameter {
  ParameterSpec spec;
  at::Tensor tensor;                                           // undefined where it is quantized
  std::optional<ops::QuantizedMatrix> quantized;               // frozen
  std::optional<ops::FakeQuantizer> quantizer = std::nullopt;  // its steps are trained
};

// Fills every parameter from the folder, converting or quantizing while copying; codes that the folder stores are
// copied as they are. Throws Error for a missing tensor, a wrong shape, or a left-over one. Learned steps that the
// folder does not have begin where rounding would be.
void load_base(const std::vector<BaseParameter>& base, const ModelShape& shape, const weights::ModelFolder& folder);
// Draws them as transformers would: matrices from a normal distribution of initializer_range, norms one, biases zero.
// What a folder would store in codes becomes zeros: a plan's stand-in for reading them.
void initialise_base(const std::vector<BaseParameter>& base, const ModelShape& shape);

}  // namespace fathom::model
