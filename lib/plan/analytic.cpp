// The instants at which a training step can be largest, each as a sum of products; the largest sum is the peak.
#include "plan/analytic.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "plan/analytic_instant.h"
#include "plan/analytic_layer.h"

namespace fathom::plan {
namespace {

using ledger::Component;

constexpr int64_t kRingSlots = 2;               // train::BatchRing
constexpr int64_t kFewestRotaryPositions = 64;  // ops::RotaryTable grows in powers of two from here

Product times(int64_t count, const char* unit, Product product) {
  product.insert(product.begin(), {count, unit});
  return product;
}

// A later micro-batch of a step that is at least as large has everything that this one has, and gradients besides.
bool is_dominated(const train::StepShape& step, size_t index) {
  return std::any_of(step.begin() + static_cast<int64_t>(index) + 1, step.end(), [&](const train::BatchShape& later) {
    return later.rows >= step[index].rows && later.length >= step[index].length;
  });
}

// Walks through a step and keeps the largest instant.
class Walk {
 public:
  Walk(const model::ModelShape& shape, const config::RunConfig& run, const Target& target, const Workload& workload)
      : shape_(shape),
        target_(target),
        workload_(workload),
        s_(shape, run, target),
        base_(model::parameter_count(shape)),
        adapters_(adapter_parameter_count(shape, run)),
        gradients_(gradients_of_layer(s_)) {}

  Analytic largest() {
    for (const train::StepShape& step : workload_.steps) {
      for (size_t i = 0; i < step.size(); ++i) {
        if (!is_dominated(step, i)) micro_batch(step[i], static_cast<int64_t>(i));
      }
    }
    for (const train::BatchShape& batch : workload_.evaluations) evaluation(batch);
    optimizer_step();
    Analytic analytic = largest_.written_out();
    analytic.maximum = maximum_;
    return analytic;
  }

 private:
  // earlier: micro-batches of the step that were before, whose gradients are there.
  void micro_batch(const train::BatchShape& batch, int64_t earlier) {
    if (s_.adapts("down_proj") && s_.adapter_bytes > s_.compute_bytes && !s_.checkpointing) last_sum(batch, earlier);
    loss(batch, earlier);
    head(batch, earlier);
    for (const int64_t layer : {shape_.num_hidden_layers, int64_t{1}}) {
      for (const Part part : {Part::kDown, Part::kGate, Part::kAttention}) layer_backward(layer, part, batch, earlier);
    }
    if (!s_.lora) embedding(batch, earlier);
  }

  // What is there from the first step to the last.
  Instant standing(const std::string& name) const {
    Instant instant(name);
    instant.add(Component::kWeights, "weights", {{base_, "parameters"}, {s_.stored_bytes, "bytes"}});
    instant.add(Component::kWeights, "adapters", {{adapters_, "parameters"}, {4, "bytes"}});
    int64_t longest = kFewestRotaryPositions;
    for (const train::StepShape& step : workload_.steps) {
      for (const train::BatchShape& batch : step) longest = std::max(longest, batch.length);
    }
    for (const train::BatchShape& batch : workload_.evaluations) longest = std::max(longest, batch.length);
    const auto positions = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(longest)));
    instant.add(Component::kWeights, "rotary tables",
                {{2, "of"}, {positions, "positions"}, {shape_.head_dim / 2, ""}, {4, "bytes"}});
    instant.add(Component::kOptimizerStates, "moments",
                {{2, "of"}, {trained(), "parameters"}, {trained_bytes(), "bytes"}});
    instant.add(Component::kOptimizerStates, "step count", {{4, "bytes"}});
    instant.add(Component::kFunctionality, "ring of batches, ids and targets",
                {{2, "of"}, {kRingSlots, "slots"}, {workload_.capacity_tokens, "tokens"}, {8, "bytes"}});
    if (s_.cuda) {
      // One for the thread of the forward pass, one for autograd's.
      const int64_t workspace = target_.compute_capability == "9.0" ? 33554432 : 8519680;
      instant.add(Component::kKernels, "cuBLAS workspaces", {{2, "of"}, {workspace, "bytes"}});
    }
    return instant;
  }

  Instant in_backward(const std::string& name, int64_t earlier) const {
    Instant instant = standing(name);
    losses(instant, earlier + 1);
    instant.add(Component::kTemporaryBuffers, "gradient of the loss", {{4, "bytes"}});
    return instant;
  }
  void losses(Instant& instant, int64_t count) const {
    instant.add(Component::kActivations, "losses of micro-batches", {{count, ""}, {4, "bytes"}});
  }

  int64_t trained() const { return s_.lora ? adapters_ : base_; }
  int64_t trained_bytes() const { return s_.lora ? 4 : s_.stored_bytes; }
  Product head_weight(int64_t bytes) const {
    return {{shape_.vocab_size, "tokens of the vocabulary"}, {shape_.hidden_size, ""}, {bytes, "bytes"}};
  }
  static Product wide(const train::BatchShape& batch, int64_t width, int64_t bytes) {
    return {{batch.rows * batch.length, "tokens"}, {width, ""}, {bytes, "bytes"}};
  }

  void all_gradients(Instant& instant) const {
    instant.add(Component::kGradients, "gradients", {{trained(), "parameters"}, {trained_bytes(), "bytes"}});
  }

  // What the layers 1 … `layer` keep; the uppermost of them only what its parts from `part` on still need.
  void kept(Instant& instant, int64_t layer, Part part, const train::BatchShape& batch) const {
    for (const Kept& tensor : kept_by_layer(s_, batch)) {
      const bool in_uppermost = tensor.part >= part;
      int64_t count = layer - (in_uppermost ? 0 : 1);
      if (s_.checkpointing) count = in_uppermost ? 1 : 0;  // the others are run again
      if (!tensor.in_first_layer && (layer == 1 || !s_.checkpointing)) count -= in_uppermost || layer > 1 ? 1 : 0;
      instant.add(tensor.component, tensor.what, times(count, "layers of", tensor.product));
    }
    if (!s_.checkpointing) return;
    inputs_of_layers(instant, layer - 1, batch);
    instant.add(Component::kActivations, "the layer's output, computed again",
                wide(batch, shape_.hidden_size, s_.stored_bytes));
  }

  void inputs_of_layers(Instant& instant, int64_t layers, const train::BatchShape& batch) const {
    instant.add(Component::kActivations, "checkpoints, inputs of layers",
                times(layers, "layers of", wide(batch, shape_.hidden_size, s_.stored_bytes)));
  }

  // The same at the end of the forward pass, with autocast's cache still full.
  void kept_by_all(Instant& instant, bool in_forward, const train::BatchShape& batch) const {
    if (!s_.checkpointing) return kept(instant, shape_.num_hidden_layers, Part::kDown, batch);
    inputs_of_layers(instant, shape_.num_hidden_layers, batch);
    if (in_forward) cached_copies(instant, batch);
  }

  void cached_copies(Instant& instant, const train::BatchShape& batch) const {
    for (const Kept& tensor : kept_by_layer(s_, batch)) {
      if (!tensor.cached) continue;
      instant.add(tensor.component, tensor.what, times(shape_.num_hidden_layers, "layers of", tensor.product));
    }
  }

  void kept_by_head(Instant& instant, const train::BatchShape& batch) const {
    instant.add(Component::kActivations, "last norm's input", wide(batch, shape_.hidden_size, s_.stored_bytes));
    instant.add(Component::kActivations, "last norm's 1/rms", {{batch.rows * batch.length, "tokens"}, {4, "bytes"}});
    if (!s_.lora) {
      instant.add(Component::kActivations, "last norm's output", wide(batch, shape_.hidden_size, s_.compute_bytes));
    }
    if (s_.casts_base)
      instant.add(Component::kFunctionality, "autocast's copy of the head", head_weight(s_.compute_bytes));
  }

  // FP32 adapters on 16-bit weights: their part is added in FP32, so that the last layer's output is there in both
  // types.
  void last_sum(const train::BatchShape& batch, int64_t earlier) {
    Instant instant = standing("forward pass, last sum of weights and adapters");
    if (earlier > 0) all_gradients(instant);
    kept_by_all(instant, true, batch);
    const Product output = wide(batch, shape_.hidden_size, s_.compute_bytes);
    instant.add(Component::kActivations, "last norm's input", output);
    instant.add(Component::kTemporaryBuffers, "last layer's second norm, its output", output);
    instant.add(Component::kTemporaryBuffers, "gated product", wide(batch, shape_.intermediate_size, s_.compute_bytes));
    instant.add(Component::kTemporaryBuffers, "product of weights", output);
    instant.add(Component::kTemporaryBuffers, "its sum with the adapters'",
                wide(batch, shape_.hidden_size, s_.adapter_bytes));
    consider(std::move(instant));
  }

  // The end of the forward pass: on the CPU the logits become their own gradient; on CUDA they go through FP32 scores,
  // which LibTorch makes from an FP32 copy of 16-bit logits.
  void loss(const train::BatchShape& batch, int64_t earlier) {
    Instant instant = standing("loss, at the end of the forward pass");
    losses(instant, s_.cuda && s_.compute_bytes == 2 ? earlier : earlier + 1);
    if (earlier > 0) all_gradients(instant);
    kept_by_all(instant, true, batch);
    kept_by_head(instant, batch);
    if (s_.cuda) {
      scores(instant, s_.compute_bytes == 2 ? Component::kTemporaryBuffers : Component::kActivations, batch);
    } else {
      instant.add(Component::kActivations, "gradient of the logits", wide(batch, shape_.vocab_size, s_.compute_bytes));
    }
    consider(std::move(instant));
  }

  void scores(Instant& instant, Component component, const train::BatchShape& batch) const {
    const Product fp32 = wide(batch, shape_.vocab_size, 4);
    instant.add(Component::kTemporaryBuffers, "logits", wide(batch, shape_.vocab_size, s_.compute_bytes));
    if (s_.compute_bytes == 2) instant.add(Component::kTemporaryBuffers, "logits in FP32", fp32);
    instant.add(component, "scores", fp32);
  }

  void head(const train::BatchShape& batch, int64_t earlier) {
    const Product logits = wide(batch, shape_.vocab_size, s_.compute_bytes);
    const auto start = [&](const std::string& name) {
      Instant instant = in_backward(name, earlier);
      if (earlier > 0) all_gradients(instant);
      kept_by_all(instant, false, batch);
      return instant;
    };
    Instant product = start("start of the backward pass, in the head");
    kept_by_head(product, batch);
    product.add(s_.cuda ? Component::kTemporaryBuffers : Component::kActivations, "gradient of the logits", logits);
    product.add(Component::kTemporaryBuffers, "gradient of the last norm's output",
                wide(batch, shape_.hidden_size, s_.compute_bytes));
    if (!s_.lora) {
      const bool final_form = !s_.casts_base && earlier == 0 && !shape_.tie_word_embeddings;
      product.add(final_form ? Component::kGradients : Component::kTemporaryBuffers, "gradient of the head",
                  head_weight(s_.compute_bytes));
    }
    consider(std::move(product));
    if (s_.cuda) {
      Instant scaled = start("start of the backward pass, in the loss");
      kept_by_head(scaled, batch);
      scaled.add(Component::kActivations, "gradient of the logits", logits);
      scaled.add(Component::kTemporaryBuffers, "gradient of the logits, scaled", logits);
      consider(std::move(scaled));
    }
    if (s_.casts_base && !s_.lora) {
      Instant cast = start("gradient of the head, cast");
      cast.add(Component::kActivations, "last norm's input", wide(batch, shape_.hidden_size, s_.stored_bytes));
      cast.add(Component::kTemporaryBuffers, "gradient of the last norm's output",
               wide(batch, shape_.hidden_size, s_.compute_bytes));
      cast.add(Component::kTemporaryBuffers, "gradient of the head, before its cast", head_weight(s_.compute_bytes));
      cast.add(earlier > 0 ? Component::kTemporaryBuffers : Component::kGradients, "gradient of the head",
               head_weight(s_.stored_bytes));
      consider(std::move(cast));
    }
  }

  void layer_backward(int64_t layer, Part part, const train::BatchShape& batch, int64_t earlier) {
    const char* where = part == Part::kDown ? "the down projection" : part == Part::kGate ? "the gate" : "attention";
    Instant instant =
        in_backward(std::string("backward pass of ") + where + " in layer " + std::to_string(layer), earlier);
    kept(instant, layer, part, batch);
    if (earlier > 0) {
      all_gradients(instant);
      if (shape_.tie_word_embeddings && !s_.lora) waiting_head(instant, Component::kTemporaryBuffers);
    } else {
      if (!s_.lora) {
        waiting_head(instant, shape_.tie_word_embeddings && !s_.casts_base ? Component::kTemporaryBuffers
                                                                           : Component::kGradients);
        instant.add(Component::kGradients, "last norm", {{shape_.hidden_size, ""}, {s_.stored_bytes, "bytes"}});
      }
      const int64_t above = shape_.num_hidden_layers - layer;
      for (const Gradient& gradient : gradients_) {
        instant.add(Component::kGradients, gradient.what,
                    times(above + (gradient.part < part ? 1 : 0), "layers of", gradient.product));
      }
    }
    for (const Gradient& gradient : gradients_) {
      if (s_.lora || part != Part::kDown || gradient.part != part) continue;
      // Just made, and not yet cast or added to what is there.
      Product made = gradient.product;
      made.back().count = s_.compute_bytes;
      instant.add(earlier > 0 || s_.casts_base ? Component::kTemporaryBuffers : Component::kGradients, gradient.what,
                  made);
    }
    for (const Temporary& temporary : temporaries_of(part, s_, batch)) {
      instant.add(Component::kTemporaryBuffers, temporary.what, temporary.product);
    }
    consider(std::move(instant));
  }

  // A tied head's gradient waits for the embedding's.
  void waiting_head(Instant& instant, Component component) const {
    instant.add(component, "gradient of the head", head_weight(s_.stored_bytes));
  }

  void embedding(const train::BatchShape& batch, int64_t earlier) {
    Instant made = in_backward("end of the backward pass, in the embedding", earlier);
    embedding_gradients(made, earlier);
    made.add(Component::kTemporaryBuffers, "gradient of the stream", wide(batch, shape_.hidden_size, s_.stored_bytes));
    const int64_t tokens = batch.rows * batch.length;
    if (s_.cuda && tokens > 3072) {  // LibTorch's kernel sorts the ids then and adds their gradients in tens
      made.add(Component::kTemporaryBuffers, "partial sums",
               {{tokens + (tokens + 9) / 10, "sums"}, {shape_.hidden_size, ""}, {4, "bytes"}});
      made.add(Component::kTemporaryBuffers, "sorted ids, about", {{tokens, "tokens"}, {45, "bytes"}});
    }
    consider(std::move(made));
    // Autograd adds a tied head's gradient in place only where it is a fresh cast.
    if (!shape_.tie_word_embeddings || s_.casts_base) return;
    Instant sum = in_backward("end of the backward pass, embedding and tied head", earlier);
    embedding_gradients(sum, earlier);
    sum.add(Component::kTemporaryBuffers, "sum of both gradients", head_weight(s_.stored_bytes));
    consider(std::move(sum));
  }

  void embedding_gradients(Instant& instant, int64_t earlier) const {
    all_gradients(instant);
    if (shape_.tie_word_embeddings) waiting_head(instant, Component::kTemporaryBuffers);
    if (earlier > 0) {
      instant.add(Component::kTemporaryBuffers, "gradient of the embedding", head_weight(s_.stored_bytes));
    }
  }

  void optimizer_step() {
    Instant instant = standing("optimizer step");
    all_gradients(instant);
    int64_t tensors = 0, chunks = 1;
    for (const model::ParameterSpec& spec : model::parameter_specs(shape_)) {
      ++tensors;
      chunks = std::max(chunks, (spec.elements() + 65535) / 65536);  // of LibTorch's multi-tensor kernels
    }
    instant.add(Component::kTemporaryBuffers, "norms of gradients", {{2, "of"}, {tensors, "tensors"}, {4, "bytes"}});
    if (s_.cuda && !s_.lora) {
      instant.add(Component::kTemporaryBuffers, "norms of chunks",
                  {{tensors, "tensors"}, {chunks, "chunks"}, {4, "bytes"}});
    }
    consider(std::move(instant));
  }

  void evaluation(const train::BatchShape& batch) {
    Instant instant = standing("evaluation, in the head");
    cached_copies(instant, batch);
    if (s_.casts_base && (!s_.lora || !s_.cuda))
      instant.add(Component::kFunctionality, "autocast's copy of the head", head_weight(s_.compute_bytes));
    if (s_.cuda) {
      scores(instant, Component::kTemporaryBuffers, batch);
    } else {
      instant.add(Component::kTemporaryBuffers, "stream", wide(batch, shape_.hidden_size, s_.stored_bytes));
      instant.add(Component::kTemporaryBuffers, "last norm's output",
                  wide(batch, shape_.hidden_size, s_.compute_bytes));
      instant.add(Component::kTemporaryBuffers, "logits", wide(batch, shape_.vocab_size, s_.compute_bytes));
    }
    consider(std::move(instant));
  }

  void consider(Instant instant) {
    for (const Component component : ledger::kComponents) {
      maximum_[component] = std::max(maximum_[component], instant.components()[component]);
    }
    if (instant.total() > largest_.total()) largest_ = std::move(instant);
  }

  const model::ModelShape& shape_;
  const Target& target_;
  const Workload& workload_;
  const LayerSettings s_;
  const int64_t base_, adapters_;  // parameters
  const std::vector<Gradient> gradients_;
  Instant largest_{""};
  ledger::ComponentBytes maximum_;
};

}  // namespace

int64_t adapter_parameter_count(const model::ModelShape& shape, const config::RunConfig& run) {
  if (run.method != config::Method::kLora) return 0;
  std::vector<model::ParameterSpec> specs = model::parameter_specs(shape);
  int64_t count = 0;
  for (const std::string& module : model::adapted_modules(shape, run.target_modules)) {
    const auto weight = std::find_if(specs.begin(), specs.end(),
                                     [&](const model::ParameterSpec& spec) { return spec.name == module + ".weight"; });
    const int64_t sides = checked_add(weight->shape.at(0), weight->shape.at(1), module);
    count = checked_add(count, checked_multiply(sides, run.lora_r, module), module);
  }
  return count;
}

Analytic estimate_analytic(const model::ModelShape& shape, const config::RunConfig& run, const Target& target,
                           const Workload& workload) {
  return Walk(shape, run, target, workload).largest();
}

}  // namespace fathom::plan
