// The parameters that follow from an architecture.
#include "arch/architecture.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "arch/layer_program.h"
#include "base/bytes.h"
#include "base/error.h"

namespace fathom::arch {
namespace {

constexpr AttentionNames kSelfAttention = {.norm_before = "input_layernorm",
                                           .norm_after = "post_attention_layernorm",
                                           .module = "self_attn",
                                           .fused = "self_attn.qkv_proj",
                                           .query = "self_attn.q_proj",
                                           .key = "self_attn.k_proj",
                                           .value = "self_attn.v_proj",
                                           .output = "self_attn.o_proj",
                                           .query_norm = "self_attn.q_norm",
                                           .key_norm = "self_attn.k_norm",
                                           .value_norm = "self_attn.v_norm",
                                           .sinks = "self_attn.sinks"};
constexpr FeedForwardNames kMlp = {.norm_before = "pre_feedforward_layernorm",
                                   .norm_after = "post_feedforward_layernorm",
                                   .module = "mlp",
                                   .fused = "mlp.gate_up_proj",
                                   .gate = "mlp.gate_proj",
                                   .up = "mlp.up_proj",
                                   .down = "mlp.down_proj",
                                   .activation = "mlp.act_fn",
                                   .router = "mlp.gate",
                                   .experts = "mlp.experts",
                                   .correction = "mlp.gate.e_score_correction_bias",
                                   .shared = "mlp.shared_expert",
                                   .shared_gate = "mlp.shared_expert.gate_proj",
                                   .shared_up = "mlp.shared_expert.up_proj",
                                   .shared_down = "mlp.shared_expert.down_proj",
                                   .shared_activation = "mlp.shared_expert.act_fn",
                                   .shared_weight = "mlp.shared_expert_gate"};
constexpr FeedForwardNames kSharedMlp = {.module = "shared_mlp",
                                         .fused = "shared_mlp.input_linear",
                                         .down = "shared_mlp.output_linear",
                                         .activation = "shared_mlp.activation"};
constexpr AttentionNames kT5Attention = {.norm_before = "layer.0.layer_norm",
                                         .module = "layer.0.SelfAttention",
                                         .query = "layer.0.SelfAttention.q",
                                         .key = "layer.0.SelfAttention.k",
                                         .value = "layer.0.SelfAttention.v",
                                         .output = "layer.0.SelfAttention.o"};
constexpr AttentionNames kT5Cross = {.norm_before = "layer.1.layer_norm",
                                     .module = "layer.1.EncDecAttention",
                                     .query = "layer.1.EncDecAttention.q",
                                     .key = "layer.1.EncDecAttention.k",
                                     .value = "layer.1.EncDecAttention.v",
                                     .output = "layer.1.EncDecAttention.o"};

constexpr AttentionNames kGpt2Attention = {
    .norm_before = "ln_1", .module = "attn", .fused = "attn.c_attn", .output = "attn.c_proj"};
constexpr FeedForwardNames kGpt2Mlp = {
    .norm_before = "ln_2", .module = "mlp", .up = "mlp.c_fc", .down = "mlp.c_proj", .activation = "mlp.act"};

constexpr AttentionNames kLfm2Attention = {.norm_before = "operator_norm",
                                           .module = "self_attn",
                                           .query = "self_attn.q_proj",
                                           .key = "self_attn.k_proj",
                                           .value = "self_attn.v_proj",
                                           .output = "self_attn.out_proj",
                                           .query_norm = "self_attn.q_layernorm",
                                           .key_norm = "self_attn.k_layernorm"};
constexpr FeedForwardNames kLfm2FeedForward = {.norm_before = "ffn_norm",
                                               .module = "feed_forward",
                                               .gate = "feed_forward.w1",
                                               .up = "feed_forward.w3",
                                               .down = "feed_forward.w2",
                                               .activation = "feed_forward"};
constexpr ConvolutionNames kLfm2Convolution = {.norm_before = "operator_norm",
                                               .module = "conv",
                                               .input = "conv.in_proj",
                                               .convolution = "conv.conv",
                                               .output = "conv.out_proj"};

constexpr DeltaNames kQwenDelta = {.norm_before = "input_layernorm",
                                   .module = "linear_attn",
                                   .mixed = "linear_attn.in_proj_qkv",
                                   .gate = "linear_attn.in_proj_z",
                                   .strength = "linear_attn.in_proj_b",
                                   .decay = "linear_attn.in_proj_a",
                                   .convolution = "linear_attn.conv1d",
                                   .norm = "linear_attn.norm",
                                   .output = "linear_attn.out_proj",
                                   .decay_rate = "linear_attn.A_log",
                                   .decay_bias = "linear_attn.dt_bias"};

// Behind self-attention in an encoder, behind cross-attention in a decoder.
LayerNames t5_names(bool cross, bool gated) {
  constexpr FeedForwardNames kGatedEncoder = {.norm_before = "layer.1.layer_norm",
                                              .module = "layer.1.DenseReluDense",
                                              .gate = "layer.1.DenseReluDense.wi_0",
                                              .up = "layer.1.DenseReluDense.wi_1",
                                              .down = "layer.1.DenseReluDense.wo",
                                              .activation = "layer.1.DenseReluDense.act"};
  constexpr FeedForwardNames kGatedDecoder = {.norm_before = "layer.2.layer_norm",
                                              .module = "layer.2.DenseReluDense",
                                              .gate = "layer.2.DenseReluDense.wi_0",
                                              .up = "layer.2.DenseReluDense.wi_1",
                                              .down = "layer.2.DenseReluDense.wo",
                                              .activation = "layer.2.DenseReluDense.act"};
  LayerNames names = {kT5Attention, kT5Cross, cross ? kGatedDecoder : kGatedEncoder};
  if (gated) return names;
  names.feed_forward.gate = nullptr;
  names.feed_forward.up = cross ? "layer.2.DenseReluDense.wi" : "layer.1.DenseReluDense.wi";
  return names;
}

}  // namespace

LayerNames LayerSpec::names() const {
  if (naming == Naming::kT5) return t5_names(cross, feed_forward.gated);
  if (naming == Naming::kGpt2) return {kGpt2Attention, {}, kGpt2Mlp};
  if (naming == Naming::kLfm2) return {kLfm2Attention, {}, kLfm2FeedForward, kLfm2Convolution};
  LayerNames names = {kSelfAttention, {}, kMlp};
  if (naming == Naming::kQwen35 || naming == Naming::kQwen3Next) names.delta = kQwenDelta;
  if (naming == Naming::kQwen3Next) {
    names.delta.fused = "linear_attn.in_proj_qkvz";
    names.delta.fused_scalars = "linear_attn.in_proj_ba";
  }
  if (naming == Naming::kGlm4) {
    names.attention.norm_after = "post_self_attn_layernorm";
    names.feed_forward.norm_before = "post_attention_layernorm";
    names.feed_forward.norm_after = "post_mlp_layernorm";
  }
  if (naming == Naming::kGraniteHybrid) names.feed_forward = kSharedMlp;
  if (naming == Naming::kHunyuan) {
    names.attention.query_norm = "self_attn.query_layernorm";
    names.attention.key_norm = "self_attn.key_layernorm";
  }
  if (naming == Naming::kGptOss) names.feed_forward.router = "mlp.router";
  if (naming == Naming::kGlmMoe) {
    names.feed_forward.shared = "mlp.shared_experts";
    names.feed_forward.shared_gate = "mlp.shared_experts.gate_proj";
    names.feed_forward.shared_up = "mlp.shared_experts.up_proj";
    names.feed_forward.shared_down = "mlp.shared_experts.down_proj";
    names.feed_forward.shared_activation = "mlp.shared_experts.act_fn";
  }
  if (naming == Naming::kGraniteMoe) {
    names.feed_forward.module = "block_sparse_moe";
    names.feed_forward.router = "block_sparse_moe.router";
    names.feed_forward.experts = "block_sparse_moe.experts";
  }
  if (norms == NormPlacement::kBefore) names.feed_forward.norm_before = "post_attention_layernorm";
  if (parallel) names.feed_forward.norm_before = nullptr;
  return names;
}

ModelNames Architecture::names() const {
  if (encoder) {
    return {.embedding = "shared",
            .norm = "decoder.final_layer_norm",
            .layers = "decoder.block.",
            .encoder_layers = "encoder.block.",
            .encoder_norm = "encoder.final_layer_norm",
            .relative_bias = "layer.0.SelfAttention.relative_attention_bias"};
  }
  if (layers.front().naming == Naming::kGpt2) {
    return {.embedding = "transformer.wte",
            .norm = "transformer.ln_f",
            .layers = "transformer.h.",
            .positions = "transformer.wpe"};
  }
  const bool lfm2 = layers.front().naming == Naming::kLfm2;
  return {.embedding = "model.embed_tokens",
          .norm = lfm2 ? "model.embedding_norm" : "model.norm",
          .layers = "model.layers."};
}

std::string Architecture::layer_prefix(int64_t layer) const {
  const int64_t first = encoder_layers();
  return (layer < first ? names().encoder_layers : names().layers) +
         std::to_string(layer < first ? layer : layer - first) + ".";
}

int64_t Architecture::widest_gate() const {
  int64_t widest = 0;
  for (const LayerSpec& layer : layers) {
    if (layer.feed_forward.gated && !layer.feed_forward.experts) widest = std::max(widest, layer.feed_forward.width);
  }
  return widest;
}

const Experts* Architecture::experts() const {
  for (const LayerSpec& layer : layers) {
    if (layer.feed_forward.experts) return &*layer.feed_forward.experts;
  }
  return nullptr;
}

const Attention& Architecture::attention() const {
  return std::find_if(layers.begin(), layers.end(), [](const LayerSpec& layer) { return layer.attends(); })
      ->attention();
}

std::vector<int64_t> Architecture::head_dims() const {
  std::set<int64_t> sizes;
  for (const LayerSpec& layer : layers) {
    if (layer.attends()) sizes.insert(layer.attention().head_dim);
  }
  return {sizes.begin(), sizes.end()};
}

bool Architecture::has_sinks() const {
  return std::any_of(layers.begin(), layers.end(),
                     [](const LayerSpec& layer) { return layer.attends() && layer.attention().sinks; });
}

int64_t Architecture::sliding_window() const {
  int64_t window = 0;
  for (const LayerSpec& layer : layers) window = layer.attends() ? std::max(window, layer.attention().window) : window;
  return window;
}

std::vector<Rotary> Architecture::rotaries() const {
  std::vector<Rotary> found;
  for (const LayerSpec& layer : layers) {
    if (!layer.attends()) continue;
    const std::optional<Rotary>& rotary = layer.attention().rotary;
    if (rotary && std::find(found.begin(), found.end(), *rotary) == found.end()) found.push_back(*rotary);
  }
  return found;
}

Architecture with_added_tokens(Architecture architecture, int64_t tokens) {
  architecture.added_tokens = checked_add(architecture.added_tokens, tokens, "added tokens");
  architecture.vocab_size = checked_add(architecture.vocab_size, tokens, "vocab_size");
  return architecture;
}

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count = checked_multiply(count, size, name);
  return count;
}

namespace {

// Appends the parameters of a stack of layers, its norm behind them.
class Specs {
 public:
  explicit Specs(const Architecture& architecture) : architecture_(architecture) {}

  // narrows: as Step has it. The bias, where there is one, has a number for each row.
  void add(const std::string& module, std::vector<int64_t> shape, Role role, int64_t layer = ParameterSpec::kNoLayer,
           bool bias = false, int64_t narrows = 1) {
    const int64_t rows = shape.front();
    const double std = initial_std(role, shape.back(), narrows);
    specs_.push_back({module + ".weight", std::move(shape), role, layer, std});
    if (bias) specs_.push_back({module + ".bias", {rows}, Role::kBias, layer});
  }
  void add_layers(int64_t first, int64_t end, const char* norm) {
    for (int64_t number = first; number < end; ++number) {
      const LayerSpec& layer = architecture_.layers[static_cast<size_t>(number)];
      const LayerProgram program = layer_program(architecture_, layer);
      for (const Step& step : program.steps) {
        add_step(step, program, number);
        const bool ends_mixer = step.kind == StepKind::kAdd && step.branch == Branch::kMixer;
        if (ends_mixer && number == first && architecture_.relative) {
          add(architecture_.layer_prefix(number) + architecture_.names().relative_bias,
              {architecture_.relative->buckets, layer.attention().heads}, Role::kRelativeBias);
        }
      }
    }
    add(norm, {architecture_.hidden_size}, Role::kNorm, ParameterSpec::kNoLayer, architecture_.biased_norms);
  }
  std::vector<ParameterSpec> take() { return std::move(specs_); }

 private:
  // Where initializer_range is T5's initializer_factor, by the width that a matrix reads.
  double initial_std(Role role, int64_t width, int64_t narrows) const {
    const bool by_width = architecture_.encoder && role != Role::kEmbedding && role != Role::kHead;
    if (role == Role::kRelativeBias) width = architecture_.hidden_size;
    const int64_t divisor = checked_multiply(by_width ? width : 1, narrows, "initial weights");
    return architecture_.initializer_range / std::sqrt(static_cast<double>(divisor));
  }
  void add_step(const Step& step, const LayerProgram& program, int64_t number) {
    const LayerSpec& layer = architecture_.layers[static_cast<size_t>(number)];
    const auto width = [&](const std::vector<size_t>& values) { return program.values[values.front()].width; };
    const auto add_its = [&](std::vector<int64_t> shape, Role role) {
      add(architecture_.layer_prefix(number) + step.module, std::move(shape), role, number, step.bias, step.narrows);
    };
    if (step.kind == StepKind::kNorm || step.kind == StepKind::kRowNorm) {
      if (step.weighed) add_its({width(step.makes) / step.groups}, Role::kNorm);
    } else if (step.kind == StepKind::kLinear) {
      add_its({width(step.makes), width(step.reads)}, Role::kProjection);
    } else if (step.kind == StepKind::kAttend && layer.attention().sinks) {
      specs_.push_back({architecture_.layer_prefix(number) + layer.names().attention.sinks,
                        {layer.attention().heads},
                        Role::kSink,
                        number,
                        architecture_.initializer_range});
    } else if (step.kind == StepKind::kConvolve) {
      add_its({width(step.makes), std::get<ShortConvolution>(layer.mixer).taps}, Role::kConvolution);
    } else if (step.kind == StepKind::kDelta) {
      add_delta(std::get<GatedDelta>(layer.mixer), layer.names().delta, number);
    } else if (step.kind == StepKind::kGatedNorm) {
      add_its({width(step.makes) / step.groups}, Role::kGateNorm);
    } else if (step.kind == StepKind::kScaleStream) {
      specs_.push_back({architecture_.layer_prefix(number) + step.module, {1}, Role::kLayerScalar, number});
    } else if (step.kind == StepKind::kExperts) {
      add_experts(layer.feed_forward, layer.names().feed_forward, number);
    }
  }

  void add_delta(const GatedDelta& delta, const DeltaNames& names, int64_t number) {
    const std::string prefix = architecture_.layer_prefix(number);
    add(prefix + names.convolution, {2 * delta.keys() + delta.values(), delta.taps}, Role::kConvolution, number);
    specs_.push_back({prefix + names.decay_rate, {delta.value_heads}, Role::kDecayRate, number});
    specs_.push_back({prefix + names.decay_bias, {delta.value_heads}, Role::kDecayBias, number});
  }

  void add_experts(const FeedForward& feed_forward, const FeedForwardNames& names, int64_t number) {
    const std::string prefix = architecture_.layer_prefix(number);
    const int64_t count = feed_forward.experts->count, width = architecture_.hidden_size, inner = feed_forward.width;
    const bool biased = feed_forward.experts->biased;
    add(prefix + names.router, {count, width}, Role::kRouter, number);
    if (biased) {
      const double std = architecture_.initializer_range;
      specs_.push_back({prefix + names.router + ".bias", {count}, Role::kExpertBias, number, std});
    }
    if (feed_forward.experts->scores.corrected) {
      specs_.push_back({prefix + names.correction, {count}, Role::kCorrection, number});
    }
    const auto add_stack = [&](const char* its, int64_t rows, int64_t columns) {
      const std::string name = prefix + names.experts + its;
      rows = checked_multiply(count, rows, name);
      specs_.push_back(
          {name, {rows, columns}, Role::kExperts, number, initial_std(Role::kExperts, columns, 1), /*experts=*/count});
      if (biased) specs_.push_back({name + "_bias", {rows}, Role::kExpertBias, number, 0, /*experts=*/count});
    };
    add_stack(".gate_up_proj", checked_multiply(2, inner, prefix), width);
    add_stack(".down_proj", width, inner);
  }

  const Architecture& architecture_;
  std::vector<ParameterSpec> specs_;
};

}  // namespace

std::vector<ParameterSpec> parameter_specs(const Architecture& architecture) {
  const std::vector<int64_t> by_token = {architecture.vocab_size, architecture.hidden_size};
  const ModelNames names = architecture.names();
  Specs specs(architecture);
  specs.add(names.embedding, by_token, Role::kEmbedding);
  if (architecture.learned_positions) {
    specs.add(names.positions, {architecture.max_position_embeddings, architecture.hidden_size}, Role::kPositions);
  }
  if (architecture.encoder) specs.add_layers(0, architecture.encoder_layers(), names.encoder_norm);
  specs.add_layers(architecture.encoder_layers(), architecture.num_hidden_layers(), names.norm);
  if (!architecture.tie_word_embeddings) specs.add(names.head, by_token, Role::kHead);
  return specs.take();
}

int64_t unit_of(const ParameterSpec& spec, const Architecture& architecture) {
  if (spec.layer != ParameterSpec::kNoLayer) return spec.layer + 1;
  const bool last = spec.role == Role::kHead || spec.module() == architecture.names().norm;
  return last ? architecture.num_hidden_layers() + 1 : 0;
}

std::vector<KeptTensor> kept_while_generating(const Architecture& architecture, const LayerSpec& layer, int64_t batch,
                                              int64_t capacity) {
  if (const auto* convolution = std::get_if<ShortConvolution>(&layer.mixer)) {
    return {{{batch, convolution->taps - 1, architecture.hidden_size}}};
  }
  if (const auto* delta = std::get_if<GatedDelta>(&layer.mixer)) {
    return {{{batch, delta->taps - 1, 2 * delta->keys() + delta->values()}},
            {{batch, delta->value_heads, delta->key_dim, delta->value_dim}, /*in_fp32=*/true}};
  }
  const Attention& attention = layer.attention();
  return std::vector(2, KeptTensor{{batch, attention.key_value_heads, capacity, attention.head_dim}});
}

namespace {

// of_experts: how many of a layer's experts count.
int64_t count_parameters(const Architecture& architecture, int64_t Experts::*of_experts) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(architecture)) {
    int64_t elements = spec.elements();
    if (spec.experts > 1) {
      const Experts& experts = *architecture.layers[static_cast<size_t>(spec.layer)].feed_forward.experts;
      elements = elements / experts.count * (experts.*of_experts);
    }
    count = checked_add(count, elements, "number of parameters");
  }
  return count;
}

}  // namespace

int64_t parameter_count(const Architecture& architecture) { return count_parameters(architecture, &Experts::count); }

int64_t active_parameter_count(const Architecture& architecture) {
  return count_parameters(architecture, &Experts::per_token);
}

}  // namespace fathom::arch
