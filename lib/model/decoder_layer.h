// One layer of a stack, whose steps are those of arch/layer_program.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "arch/architecture.h"
#include "arch/layer_program.h"
#include "model/expert_layer.h"
#include "ops/attention/attention.h"
#include "ops/attention/biased_attention.h"
#include "ops/delta/gated_delta.h"
#include "ops/linear/linear.h"
#include "ops/module_names.h"
#include "ops/norm.h"
#include "ops/rotary.h"

namespace fathom::model {

// What a step computes with, by its kind.
struct StepWeights {
  ops::Linear linear = {};
  ops::NormWeights norm = {};
  std::optional<ExpertWeights> experts = std::nullopt;
  at::Tensor taps_DJ = {};
  at::Tensor scalar = {};   // [1]
  at::Tensor sinks_H = {};  // undefined: attention has none
  ops::DeltaWeights delta = {};
};

struct DecoderLayer {
  ops::ModuleNames names;
  arch::LayerSpec spec;
  arch::LayerProgram program;
  std::vector<StepWeights> weights;    // of each step of the program
  at::ScalarType stored = at::kFloat;  // that of its norms
  std::optional<size_t> rotary;        // which of LayerContext::turns; unset: heads are not turned
};

// What a layer keeps while it generates: the tensors of arch::kept_while_generating; of a layer with cross-attention
// the source's keys and values too, [B, S, K, E], which the first pass makes.
struct LayerState {
  std::vector<at::Tensor> kept;
  at::Tensor source_keys_BSKE, source_values_BSKE;
};

// What all layers of one pass through a stack share.
struct LayerContext {
  int64_t rows = 0;  // B; the stream is [T, D] with T = B * S
  int64_t seen = 0;  // tokens of each row in passes before, of which layers have a state
  ops::NormSettings norm;
  std::vector<ops::Turns> turns;                    // of the positions of this pass, for each of rotaries()
  std::shared_ptr<const ops::Documents> documents;  // of the one row; null: every row is one
  const std::map<int64_t, footprint::AttentionKernel>* kernels = nullptr;  // of attention, by the size of heads
  bool by_scores = false;                     // attention is ops/attention/biased_attention.h
  at::Tensor causal_HN, causal_in_window_HN;  // its bias, where positions are not relative, of layers of either kind
  at::Tensor hidden_BS;                       // bool: keys of self-attention that no query sees; undefined: none
  at::Tensor source_hidden_BS;                // likewise of cross-attention
  double dropout = 0, inner_dropout = 0;      // of this pass
  bool rounds_inputs = false;                 // of linear layers, each token in INT8: ops/quantized/fake_quantize.h
  bool training = false;
  std::shared_ptr<ops::Balance> balance;  // of this pass's routers; null: they add nothing to the loss
};

// What differs from layer to layer, or needs a gradient.
struct LayerInputs {
  at::Tensor stream_TD;
  at::Tensor source_TD;       // what the encoder made; undefined: there is none, or the cache has its keys and values
  at::Tensor by_distance_HN;  // of self-attention, where positions are relative
};

// stream_TD plus what each part adds to it; a new tensor of the same type. Computes in the device's autocast type, if
// autocast is on. state: null in training; else it becomes that of the tokens up to the last of this pass.
at::Tensor run_layer(const DecoderLayer& layer, const LayerInputs& inputs, const LayerContext& context,
                     LayerState* state = nullptr);

}  // namespace fathom::model
