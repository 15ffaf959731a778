// Two stacks of layers with the same attention: the encoder's see all of the source, the decoder's attend to it as
// well.
#include "arch/read_t5.h"

#include <cmath>
#include <string>

#include "base/json_value.h"

namespace fathom::arch {
namespace {

struct Projection {
  const char* name;
  bool gated;
  Activation activation;
  const char* function;  // as dense_act_fn names it
};
constexpr Projection kProjections[] = {{"relu", false, Activation::kRelu, "relu"},
                                       {"gelu_new", false, Activation::kGelu, "gelu_new"},
                                       {"gated-gelu", true, Activation::kGelu, "gelu_new"},
                                       {"gated-gelu_new", true, Activation::kGelu, "gelu_new"},
                                       {"gated-silu", true, Activation::kSilu, "silu"}};

FeedForward read_feed_forward(const ConfigJson& config) {
  FeedForward feed_forward;
  feed_forward.width = config.size("d_ff", 2048);
  const Json* said = config.find("feed_forward_proj");
  std::string known;
  for (const auto& [name, gated, activation, function] : kProjections) {
    known.append(known.empty() ? "" : ", ").append(name);
    if (said != nullptr ? *said != name : name != kProjections[0].name) continue;
    if (const Json* another = config.find("dense_act_fn"); another != nullptr && *another != function) {
      config.refuse("dense_act_fn", another->dump().substr(0, 80) + " is not what feed_forward_proj says");
    }
    feed_forward.gated = gated;
    feed_forward.activation = activation;
    return feed_forward;
  }
  config.refuse("feed_forward_proj", said->dump().substr(0, 80) + " is not supported (" + known + " are)");
}

}  // namespace

void read_t5(const ConfigJson& config, Architecture& architecture) {
  const auto says = [&](const char* key, bool fallback) {
    return config.find(key) != nullptr ? config.flag(key) : fallback;
  };
  if (!says("is_encoder_decoder", true)) config.refuse("is_encoder_decoder", "false is not supported");
  architecture.vocab_size = config.size("vocab_size", 32128);
  architecture.hidden_size = config.size(config.either("d_model", "hidden_size"), 512);
  LayerSpec layer;
  layer.naming = Naming::kT5;
  layer.attention().heads = layer.attention().key_value_heads =
      config.size(config.either("num_heads", "num_attention_heads"), 8);
  layer.attention().head_dim = config.size(config.either("d_kv", "head_dim"), 64);
  layer.attention().scaled = false;
  layer.feed_forward = read_feed_forward(config);
  const int64_t encoder_layers = config.layers(config.either("num_layers", "num_hidden_layers"), 6);
  // A decoder of which nothing is said is as deep as num_layers says, by that name alone.
  const int64_t decoder_layers = config.layers("num_decoder_layers", config.layers("num_layers", 6));
  architecture.layers.assign(static_cast<size_t>(encoder_layers), layer);
  layer.cross = true;
  architecture.layers.insert(architecture.layers.end(), static_cast<size_t>(decoder_layers), layer);

  architecture.encoder = Encoder{encoder_layers, config.integer("decoder_start_token_id").value_or(0)};
  if (architecture.encoder->decoder_start_token_id < 0 ||
      architecture.encoder->decoder_start_token_id >= architecture.vocab_size) {
    config.refuse("decoder_start_token_id", "is outside the vocabulary");
  }
  architecture.relative = RelativePositions{config.size("relative_attention_num_buckets", 32),
                                            config.size("relative_attention_max_distance", 128)};
  // Half of an encoder's buckets lie behind a query; half of what remains are single distances.
  if (architecture.relative->buckets < 4) config.refuse("relative_attention_num_buckets", "expected at least 4");
  if (architecture.relative->max_distance <= architecture.relative->buckets / 2) {
    config.refuse("relative_attention_max_distance", "expected more than half of relative_attention_num_buckets");
  }
  architecture.dropout = architecture.embedding_dropout = architecture.inner_dropout =
      config.rate({"dropout_rate"}, 0.1);
  architecture.norm_eps = config.number("layer_norm_epsilon", 1e-6, 0);
  architecture.initializer_range = config.number("initializer_factor", 1, 0);
  // T5 1.0 shares embedding and head, and scales what the head reads; T5 1.1 and FLAN-T5 do neither.
  architecture.tie_word_embeddings = says(kTied, true);
  if (says("scale_decoder_outputs", architecture.tie_word_embeddings)) {
    architecture.head_scale = 1 / std::sqrt(static_cast<double>(architecture.hidden_size));
  }
  architecture.max_position_embeddings = config.size("n_positions", 512);
  if (!config.is_null("pad_token_id")) architecture.pad_token_id = 0;
  if (!config.is_null("eos_token_id")) architecture.eos_token_ids = {1};
}

}  // namespace fathom::arch
