// The operators of a training step in the order of their forward passes, each with what it declares of its memory.
#pragma once

#include <vector>

#include "arch/run.h"
#include "footprint/footprint.h"
#include "plan/plan.h"

namespace fathom::plan {

struct Operator {
  const char* part = "";  // "attention"
  footprint::Footprint footprint;
  footprint::Tensors gradients;  // of its weights, which its backward pass makes
  footprint::Tensors waiting;    // gradients of earlier operators' outputs, while its backward pass runs
  // Gradients that were made before and by the same function: where there are some already, all are added at its end.
  footprint::Tensors made_with = {};
  footprint::Tensors lasting = {};  // kept as long as the graph it is in: of a batch, or of a layer that runs again
  bool is_attention = false;
  bool keeps_stream = false;          // as it is
  bool makes_gradients_late = false;  // of the head: in its backward pass
  // The gradient of its output is that of the residual stream, or that one is needed no more.
  bool takes_stream_gradient = false;
  // In its layer. A branch follows, whose gradient is added to the stream's before; one that reads the encoder follows,
  // which has made the gradient of that.
  bool another_follows = false, follows_source = false;
};
using Operators = std::vector<Operator>;

// Over one batch.
struct BatchOperators {
  footprint::Tensors loss;  // a number and its gradient, and what is kept as long
  // Of the layers of a decoder, and of an encoder where there is one.
  struct Stack {
    footprint::Tensors stream_gradient;      // runs through the backward pass
    footprint::Tensors checkpoint;           // what a layer keeps that is computed again
    footprint::Tensors output_gradient;      // of such a layer, beside sums with those of its branches
    footprint::Tensors read = {};            // by all its layers: biases by distance, positions of packed rows
    footprint::Tensors bias_sums = {};       // of gradients of biases, once a layer has made some
    footprint::Tensors bias_gradients = {};  // of the table they are made from
  };
  Stack decoder, encoder;
  int64_t encoder_layers = 0;                    // the first ones
  footprint::Tensors encoded, encoded_gradient;  // what an encoder made; none where there is none
  // Sources and targets are embedded as one. That of targets while the encoder goes backward, and its gradient; that of
  // sources while a decoder's first layer reads the other.
  footprint::Tensors embedded_targets, embedded_sources;
  std::vector<Operators> kinds;       // of layers that are alike
  std::vector<size_t> layers;         // the kind of each
  std::vector<bool> needs_gradients;  // of each layer: it, or what comes before it, is trained
  // While answers are written: ids, and the cache of keys and values; those that each layer makes of a source.
  footprint::Tensors answers, source_values;
  Operator embedding, encoder_norm, last_norm, head;
  Operator positions;                 // those that are learned go backward before the embedding
  bool keeps_encoded = false;         // what an encoder made, for backward passes
  footprint::Tensors inputs_of_last;  // what the last layer reads in its forward pass, if nobody keeps it
  bool trains_embedding = false;
  bool head_waits = false;  // with its gradient, for that of the embedding, which is the same matrix
  // Layers are counted from 1.
  const Stack& stack_of(int64_t layer) const { return layer <= encoder_layers ? encoder : decoder; }
  const Operators& of_layer(int64_t layer) const { return kinds[layers[static_cast<size_t>(layer - 1)]]; }
  const footprint::Tensors& read_first() const { return encoder_layers > 0 ? encoder.read : decoder.read; }
  bool reads_encoder_first(int64_t layer) const {
    return encoder_layers > 0 && layer == encoder_layers + 1 && has_backward(layer);
  }
  bool has_backward(int64_t layer) const { return needs_gradients[static_cast<size_t>(layer - 1)]; }
};

// A run's model, by its parameters: what its operators are over one batch.
class StepOperators {
 public:
  // Refers to both.
  StepOperators(const arch::Run& run, const Target& target);

  BatchOperators of_batch(const schedule::BatchShape& batch, bool gradients) const;
  // The first pass of answers, over what all prompts have; those after it read a token of each row.
  BatchOperators of_answers(const schedule::AnswerShape& answers) const;

 private:
  using Rows = std::vector<const arch::ParameterRow*>;
  struct Kind {
    Rows rows;
    const arch::LayerSpec* spec = nullptr;
    bool trained = false;
    bool input_needs_gradient = false;
    bool source_needs_gradient = false;  // that a decoder's layer attends to
    bool needs_gradients() const { return trained || input_needs_gradient || source_needs_gradient; }
    bool operator==(const Kind& other) const;
  };
  footprint::StepSizes sizes_of(int64_t tokens, bool gradients) const;
  bool head_comes_cast() const;
  Operator norm(const footprint::StepSizes& step, const char* part, const char* name) const;
  footprint::Tensors read_by_layers(const schedule::BatchShape& shape, int64_t length) const;
  bool keeps_what_layers_read(const BatchOperators& batch) const;
  void add_encoder(const schedule::BatchShape& shape, const footprint::StepSizes& step,
                   const footprint::StepSizes& source, bool gradients, BatchOperators& result) const;
  void add_inputs_of_last(const schedule::BatchShape& shape, BatchOperators& result) const;
  void add_head(const schedule::BatchShape& shape, const footprint::StepSizes& step, const footprint::StepSizes& source,
                bool gradients, BatchOperators& result) const;
  void add_gradients_of_others(BatchOperators& result) const;
  void add_masks(const footprint::StepSizes& step, const footprint::StepSizes& source, BatchOperators& result) const;

  const arch::Run& run_;
  const Target& target_;
  std::vector<Kind> kinds_;
  std::vector<size_t> layers_;  // the kind of each
  Rows others_;                 // of no layer
};

}  // namespace fathom::plan
