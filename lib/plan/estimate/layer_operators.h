// The operators of one layer, by the steps of arch/layer_program.h.
#pragma once

#include <vector>

#include "arch/run.h"
#include "footprint/footprint.h"
#include "plan/estimate/step_operators.h"
#include "plan/plan.h"

namespace fathom::plan {

// One layer over one batch.
struct LayerSubject {
  const arch::Run& run;
  const Target& target;
  const arch::LayerSpec& spec;
  const std::vector<const arch::ParameterRow*>& rows;  // the layer's
  const schedule::BatchShape& batch;
  footprint::StepSizes step;           // of the stream
  footprint::StepSizes source;         // of what an encoder made, for a layer that attends to it
  bool gradients = true;               // else an evaluation
  bool input_needs_gradient = true;    // the stream's
  bool source_needs_gradient = false;  // of what an encoder made
};
Operators layer_operators(const LayerSubject& subject);

}  // namespace fathom::plan
