// What the families call the modules of a layer, behind the layer's own prefix ("model.layers.3.").
#pragma once

namespace fathom::arch {

// By kLlama the norms are called by where they stand, as Llama, OLMo 2 and Gemma 2 call them.
enum class Naming {
  kLlama,
  kGlm4,
  kGraniteMoe,
  kT5,
  kGpt2,
  kLfm2,
  kQwen35,
  kGraniteHybrid,
  kHunyuan,
  kGptOss,
  kGlmMoe,
  kQwen3Next
};

// Null: no family of this naming has it, or the layer has none.
struct AttentionNames {
  const char *norm_before = nullptr, *norm_after = nullptr;                          // "input_layernorm"
  const char* module = nullptr;                                                      // "self_attn"
  const char* fused = nullptr;                                                       // "self_attn.qkv_proj"
  const char *query = nullptr, *key = nullptr, *value = nullptr, *output = nullptr;  // "self_attn.q_proj"
  const char *query_norm = nullptr, *key_norm = nullptr, *value_norm = nullptr;
  const char* sinks = nullptr;  // "self_attn.sinks", without a module of their own
  // Of LatentHeads: what makes the narrow rows, normalises them, and makes heads of them.
  const char *query_down = nullptr, *query_down_norm = nullptr, *query_up = nullptr;  // "self_attn.q_a_proj"
  const char *latent = nullptr, *latent_norm = nullptr, *latent_up = nullptr;         // "self_attn.kv_a_proj_with_mqa"
};

struct ConvolutionNames {
  const char* norm_before = nullptr;                                       // "operator_norm"
  const char* module = nullptr;                                            // "conv"
  const char *input = nullptr, *convolution = nullptr, *output = nullptr;  // "conv.in_proj"
};

struct DeltaNames {
  const char* norm_before = nullptr;  // "input_layernorm"
  const char* module = nullptr;       // "linear_attn"
  // Of families that have two matrices in the place of the four below.
  const char *fused = nullptr, *fused_scalars = nullptr;  // "linear_attn.in_proj_qkvz", "linear_attn.in_proj_ba"
  const char *mixed = nullptr, *gate = nullptr, *strength = nullptr, *decay = nullptr;  // "linear_attn.in_proj_qkv"
  const char *convolution = nullptr, *norm = nullptr, *output = nullptr;                // "linear_attn.conv1d"
  const char *decay_rate = nullptr, *decay_bias = nullptr;                              // "linear_attn.A_log"
};

struct FeedForwardNames {
  const char *norm_before = nullptr, *norm_after = nullptr;    // "post_attention_layernorm"
  const char* module = nullptr;                                // "mlp"
  const char* fused = nullptr;                                 // "mlp.gate_up_proj"
  const char *gate = nullptr, *up = nullptr, *down = nullptr;  // "mlp.gate_proj"
  const char* activation = nullptr;                            // "mlp.act_fn"
  const char *router = nullptr, *experts = nullptr;            // "mlp.gate", "mlp.experts"
  const char* correction = nullptr;                            // "mlp.gate.e_score_correction_bias"
  // Of what is shared beside experts: "mlp.shared_expert.gate_proj", "mlp.shared_expert_gate".
  const char *shared = nullptr, *shared_gate = nullptr, *shared_up = nullptr, *shared_down = nullptr,
             *shared_activation = nullptr, *shared_weight = nullptr;
};

struct LayerNames {
  AttentionNames attention;
  AttentionNames cross;  // of layers that have it
  FeedForwardNames feed_forward;
  ConvolutionNames convolution = {};
  DeltaNames delta = {};
  const char* scalar = "layer_scalar";
};

// Of the modules outside the layers.
struct ModelNames {
  const char *embedding = nullptr, *norm = nullptr, *head = "lm_head";  // "model.embed_tokens", "model.norm"
  const char* layers = nullptr;                                         // "model.layers."; of the decoder
  // Of families that have them.
  const char *encoder_layers = nullptr, *encoder_norm = nullptr;
  const char* relative_bias = nullptr;  // of a stack's first layer, behind its prefix
  const char* positions = nullptr;
};

}  // namespace fathom::arch
