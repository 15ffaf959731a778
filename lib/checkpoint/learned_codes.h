// What quantization-aware training has learned, as the tensors of a quantized model folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "quant/layout.h"
#include "weights/folder.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

// Where weights, adapters and steps of a run lie.
struct LearnedWeights {
  const weights::ModelFolder& model;                  // the weights, and after full training the steps
  const weights::SafetensorsFile* adapter = nullptr;  // the steps and the adapters of LoRA, named as PEFT names them
  double scaling = 1;                                 // of the adapters
};

// The format that the steps are for; nothing where there are none. Throws Error for steps that fit no format.
std::optional<quant::Scheme> learned_scheme(const LearnedWeights& learned);

// `sources` (the whole model's) with codes and scales, as quant/folder_tensors.h has them, in the place of each weight
// that has steps, and without the steps. A weight is merged and rounded when its tensors are read, so that the largest
// decides how much memory that takes. What `learned` refers to must live as long. Throws Error for steps that do not
// fit their weight.
std::vector<weights::TensorSource> learned_sources(const std::vector<weights::TensorSource>& sources,
                                                   const LearnedWeights& learned, quant::Scheme scheme);

}  // namespace fathom::checkpoint
