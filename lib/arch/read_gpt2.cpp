// Learned positions, LayerNorm with biases, one projection of queries, keys and values, and dropout of one rate.
#include "arch/read_gpt2.h"

#include <string>

#include "base/json_value.h"

namespace fathom::arch {

void read_gpt2(const ConfigJson& config, Architecture& architecture) {
  for (const char* key : {"scale_attn_by_inverse_layer_idx", "add_cross_attention"}) {
    if (config.asked(key) != nullptr) config.refuse(key, "only false is supported");
  }
  if (config.find("scale_attn_weights") != nullptr && !config.flag("scale_attn_weights")) {
    config.refuse("scale_attn_weights", "false is not supported");
  }
  if (const Json* name = config.find("activation_function"); name != nullptr && *name != "gelu_new") {
    config.refuse("activation_function", name->dump().substr(0, 80) + " is not supported (only gelu_new)");
  }
  architecture.vocab_size = config.size("vocab_size", 50257);
  architecture.hidden_size = config.size(config.either("n_embd", "hidden_size"), 768);
  LayerSpec layer;
  layer.naming = Naming::kGpt2;
  layer.attention().heads = layer.attention().key_value_heads =
      config.size(config.either("n_head", "num_attention_heads"), 12);
  if (architecture.hidden_size % layer.attention().heads != 0) config.refuse("n_head", "does not divide n_embd");
  layer.attention().head_dim = architecture.hidden_size / layer.attention().heads;
  layer.attention().input_bias = layer.attention().output_bias = layer.feed_forward.bias = true;
  layer.attention().fused = true;
  layer.feed_forward.width = config.size("n_inner", 4 * architecture.hidden_size);
  layer.feed_forward.gated = false;
  layer.feed_forward.activation = Activation::kGelu;
  const int64_t layers = config.layers(config.either("n_layer", "num_hidden_layers"), 12);
  architecture.layers.assign(static_cast<size_t>(layers), layer);
  architecture.learned_positions = architecture.centred_norms = architecture.biased_norms = true;
  architecture.norm_eps = config.number("layer_norm_epsilon", 1e-5, 0);
  architecture.dropout = architecture.embedding_dropout = config.rate({"resid_pdrop", "embd_pdrop", "attn_pdrop"}, 0.1);
  architecture.max_position_embeddings = config.size(config.either("n_positions", "max_position_embeddings"), 1024);
  architecture.initializer_range = config.number("initializer_range", 0.02, 0);
  architecture.tie_word_embeddings = config.find(kTied) == nullptr || config.flag(kTied);
  constexpr int64_t kEndOfText = 50256;
  if (architecture.vocab_size <= kEndOfText) return;
  if (!config.is_null("bos_token_id")) architecture.bos_token_id = kEndOfText;
  if (!config.is_null("eos_token_id")) architecture.eos_token_ids = {kEndOfText};
}

}  // namespace fathom::arch
