// What the families call the modules of a layer, behind the layer's own prefix ("model.layers.3.").
#pragma once

#include <string_view>

namespace fathom::arch {

enum class Naming { kLlama, kT5 };

struct AttentionNames {
  const char *norm, *module;                 // "input_layernorm", "self_attn"
  const char *query, *key, *value, *output;  // "self_attn.q_proj"
  const char *query_norm, *key_norm;         // null: no family of this naming has them
};

struct FeedForwardNames {
  const char *norm, *module;     // "post_attention_layernorm", "mlp"
  const char *gate, *up, *down;  // "mlp.gate_proj"; gate: null where the layer has none
  const char* activation;        // "mlp.act_fn"
  const char *router, *experts;  // "mlp.gate", "mlp.experts"; null: no family of this naming has them
};

struct LayerNames {
  AttentionNames attention;
  AttentionNames cross;  // of layers that have it
  FeedForwardNames feed_forward;
};

// Whether a tensor of this name is the embedding, in the naming of any family. A head is "lm_head.weight" in all.
inline bool is_embedding(std::string_view tensor) {
  return tensor == "model.embed_tokens.weight" || tensor == "shared.weight";
}

// Of the modules outside the layers.
struct ModelNames {
  const char *embedding, *norm, *head;  // "model.embed_tokens", "model.norm", "lm_head"
  const char* layers;                   // "model.layers."; of the decoder
  // Of families that have them.
  const char *encoder_layers, *encoder_norm;
  const char* relative_bias;  // of a stack's first layer, behind its prefix
};

}  // namespace fathom::arch
