// The operators of a training step in the order of their forward passes, each with what it declares of its memory.
#pragma once

#include <vector>

#include "arch/architecture.h"
#include "arch/parameter_table.h"
#include "config/run_config.h"
#include "footprint/footprint.h"
#include "plan/plan.h"

namespace fathom::plan {

struct Operator {
  const char* part = "";  // "attention"
  footprint::Footprint footprint;
  footprint::Tensors gradients;  // of its weights, which its backward pass makes
  footprint::Tensors waiting;    // gradients of earlier operators' outputs, while its backward pass runs
  bool is_attention = false;
  bool takes_stream_gradient = false;  // the gradient of its output is that of the residual stream
};
using Operators = std::vector<Operator>;

// Over one batch.
struct BatchOperators {
  footprint::Tensors loss;  // a number and its gradient
  // Of the layers of a decoder, and of an encoder where there is one.
  struct Stack {
    footprint::Tensors stream_gradient;  // runs through the backward pass
    footprint::Tensors checkpoint;       // what a layer keeps that is computed again
  };
  Stack decoder, encoder;
  int64_t encoder_layers = 0;         // the first ones
  footprint::Tensors encoded;         // what an encoder made; none where there is none
  std::vector<Operators> kinds;       // of layers that are alike
  std::vector<size_t> layers;         // the kind of each
  std::vector<bool> needs_gradients;  // of each layer: it, or what comes before it, is trained
  Operator embedding, last_norm, head;
  bool trains_embedding = false;
  bool head_waits = false;  // with its gradient, for that of the embedding, which is the same matrix
  // Layers are counted from 1.
  const Stack& stack_of(int64_t layer) const { return layer <= encoder_layers ? encoder : decoder; }
  const Operators& of_layer(int64_t layer) const { return kinds[layers[static_cast<size_t>(layer - 1)]]; }
  bool has_backward(int64_t layer) const { return needs_gradients[static_cast<size_t>(layer - 1)]; }
};

// A run's model, by its parameters: what its operators are over one batch.
class StepOperators {
 public:
  StepOperators(const arch::Architecture& architecture, const config::RunConfig& run, const Target& target,
                const arch::ParameterTable& parameters);

  BatchOperators of_batch(const schedule::BatchShape& batch, bool gradients) const;

 private:
  using Rows = std::vector<const arch::ParameterRow*>;
  struct Kind {
    Rows rows;
    const arch::LayerSpec* spec = nullptr;
    bool trained = false;
    bool input_needs_gradient = false;
    bool source_needs_gradient = false;  // that a decoder's layer attends to
    bool ends_encoder = false;           // what it makes is normalised for the decoder
    bool needs_gradients() const { return trained || input_needs_gradient || source_needs_gradient; }
    bool operator==(const Kind& other) const;
  };
  footprint::StepSizes sizes_of(int64_t tokens, bool gradients) const;
  Operator encoder_norm(const footprint::StepSizes& source, bool gradients) const;
  Operator last_norm(const footprint::StepSizes& step, const footprint::StepSizes& source, bool gradients) const;
  bool drops(bool gradients) const { return gradients && architecture_.dropout > 0; }

  const arch::Architecture& architecture_;
  const config::RunConfig& run_;
  const Target& target_;
  const arch::ParameterTable& parameters_;
  std::vector<Kind> kinds_;
  std::vector<size_t> layers_;  // the kind of each
  Rows others_;                 // of no layer
};

}  // namespace fathom::plan
