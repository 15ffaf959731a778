// After the modules of transformers' classes.
#include "arch/layer_names.h"

#include "arch/architecture.h"

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
                                           .sinks = "self_attn.sinks",
                                           .query_down = "self_attn.q_a_proj",
                                           .query_down_norm = "self_attn.q_a_layernorm",
                                           .query_up = "self_attn.q_b_proj",
                                           .latent = "self_attn.kv_a_proj_with_mqa",
                                           .latent_norm = "self_attn.kv_a_layernorm",
                                           .latent_up = "self_attn.kv_b_proj"};
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

}  // namespace fathom::arch
