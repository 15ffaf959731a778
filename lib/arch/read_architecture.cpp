// Reads the config.json of a model, refusing what this program would compute differently.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "arch/architecture.h"
#include "arch/config_json.h"
#include "arch/families.h"
#include "arch/read_experts.h"
#include "arch/read_gemma4.h"
#include "arch/read_gpt2.h"
#include "arch/read_gpt_oss.h"
#include "arch/read_granite_hybrid.h"
#include "arch/read_latent.h"
#include "arch/read_lfm2.h"
#include "arch/read_qwen35.h"
#include "arch/read_rope.h"
#include "arch/read_storage.h"
#include "arch/read_t5.h"
#include "arch/read_text_part.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

std::string known_families() {
  std::string names;
  for (const Family& family : families()) {
    names.append(names.empty() ? "" : ", ").append(family.name);
  }
  return "The decoders that there are: " + names + ".";
}

const Family& read_family(const ConfigJson& config) {
  const Json* type = config.find("model_type");
  const Json* names = config.find("architectures");
  if (names != nullptr && (!names->is_array() || names->size() != 1)) {
    config.refuse("architectures", names->dump().substr(0, 80) + " is not one architecture", known_families());
  }
  for (const Family& family : families()) {
    if (names != nullptr ? (*names)[0] != family.name : type == nullptr || *type != family.model_type) continue;
    if (type != nullptr && *type != family.model_type) {
      config.refuse("model_type", type->dump().substr(0, 80) + " does not belong to " + std::string(family.name) +
                                      ", which architectures names");
    }
    return family;
  }
  const std::string key = names != nullptr ? "architectures" : "model_type";
  const Json* found = names != nullptr ? names : type;
  const std::string said = found == nullptr ? "missing" : found->dump().substr(0, 80);
  config.refuse(key, said + " is not supported", std::string(kOthersArePlanned) + ". " + known_families());
}

constexpr const char *kAttentionDropout = "attention_dropout", *kResidualDropout = "residual_dropout";

// Keys that change the computation in ways this decoder does not have.
void refuse_other_models(const ConfigJson& config, const Family& family) {
  for (const char* key : {kAttentionDropout, "resid_pdrop", "embd_pdrop"}) {
    const bool is_read = family.dropout != 0 && key == kAttentionDropout;
    if (!is_read && config.asked(key) != nullptr) config.refuse(key, "only 0 is supported");
  }
  for (const char* key : {"is_encoder_decoder", "use_bidirectional_attention"}) {
    if (config.asked(key) != nullptr) config.refuse(key, "only false is supported");
  }
  // Cohere's, with a weight for each number of each head; where others say so, they have norms of heads.
  if (family.query_key_norm == QueryKeyNorm::kNone && config.asked("use_qk_norm") != nullptr) {
    config.refuse("use_qk_norm", "only false is supported");
  }
}

void check_activation(const ConfigJson& config, const Family& family) {
  const char* name = family.activation == Activation::kGelu          ? "gelu_pytorch_tanh"
                     : family.activation == Activation::kSquaredRelu ? "relu2"
                                                                     : "silu";
  for (const char* key : {"hidden_act", "hidden_activation"}) {
    const Json* value = config.find(key);
    if (value == nullptr || *value == name) continue;
    if (key == std::string("hidden_act") && *value == family.activation_alias) continue;
    config.refuse(key, value->dump().substr(0, 80) + " is not supported (only " + name + ")");
  }
}

void read_heads(const ConfigJson& config, const Family& family, int64_t hidden_size, Attention& attention) {
  attention.heads = config.size("num_attention_heads");
  const bool one_for_each = family.num_key_value_heads == 0 || config.is_null("num_key_value_heads");
  attention.key_value_heads =
      config.size("num_key_value_heads", one_for_each ? attention.heads : family.num_key_value_heads);
  if (attention.heads % attention.key_value_heads != 0) {
    config.refuse("num_key_value_heads", std::to_string(attention.key_value_heads) +
                                             " does not divide num_attention_heads " + std::to_string(attention.heads));
  }
  if (config.find("head_dim") || (family.head_dim != 0 && !config.is_null("head_dim"))) {
    attention.head_dim = config.size("head_dim", family.head_dim);
  } else {
    if (hidden_size % attention.heads != 0) {
      config.refuse("num_attention_heads", "does not divide hidden_size, and there is no head_dim");
    }
    attention.head_dim = hidden_size / attention.heads;
  }
  if (attention.head_dim % 2 != 0) config.refuse("head_dim", "rotary positions need an even size of heads");
}

void read_biases(const ConfigJson& config, const Family& family, LayerSpec& layer) {
  const auto has = [&](Bias bias, const char* key) {
    if (bias == Bias::kByKeyElseTrue && !config.find(key)) return true;
    return bias == Bias::kAlways || (bias != Bias::kNever && config.flag(key));
  };
  layer.attention().input_bias = has(family.input_bias, family.input_bias_key);
  layer.attention().output_bias = has(family.output_bias, family.output_bias_key);
  layer.feed_forward.bias = has(family.feed_forward_bias, family.feed_forward_bias_key);
}

// All alike; read_windows sets apart those that slide.
std::vector<LayerSpec> read_layers(const ConfigJson& config, const Family& family, int64_t hidden_size) {
  LayerSpec layer;
  layer.norms = family.norms;
  layer.parallel = family.parallel;
  layer.naming = family.naming;
  const bool normed = !family.query_key_norm_by_key || config.flag("use_qk_norm");
  layer.attention().query_key_norm = normed ? family.query_key_norm : QueryKeyNorm::kNone;
  layer.attention().norms_turned = family.norms_turned;
  layer.attention().fused = family.fused_attention;
  layer.feed_forward.fused = family.fused_feed_forward;
  layer.feed_forward.activation = family.activation;
  layer.feed_forward.gated = family.gated;
  layer.feed_forward.width = config.size("intermediate_size");
  const int64_t layers = config.layers("num_hidden_layers");
  read_heads(config, family, hidden_size, layer.attention());
  read_biases(config, family, layer);
  return std::vector<LayerSpec>(static_cast<size_t>(layers), layer);
}

// 0 where there is none.
double read_softcap(const ConfigJson& config, const char* key, double usual) {
  if (usual == 0) {
    if (const Json* value = config.asked(key)) config.refuse(key, "not supported: " + value->dump().substr(0, 80));
    return 0;
  }
  if (config.is_null(key)) return 0;
  const double softcap = config.number(key, usual, 0);
  if (softcap == 0) config.refuse(key, "expected more than 0, or null for none");
  return softcap;
}

void read_softcaps(const ConfigJson& config, const Family& family, Architecture& architecture) {
  const double of_scores = read_softcap(config, "attn_logit_softcapping", family.attn_logit_softcapping);
  for (LayerSpec& layer : architecture.layers) layer.attention().softcap = of_scores;
  architecture.head_softcap = read_softcap(config, "final_logit_softcapping", family.final_logit_softcapping);
}

// What rounds and what scales in a family's layers and around them, beside norms.
void read_scales(const ConfigJson& config, const Family& family, const HeadDims& heads, Architecture& architecture,
                 RotaryOfLayers& rotaries) {
  const auto factor = [&](const char* key, double usual = 1) {
    const double value = config.number(key, usual, 0);
    if (value == 0) config.refuse(key, "expected more than 0");
    return value;
  };
  std::optional<double> of_scores;
  if (family.plain_scores) of_scores = 1;
  if (family.query_pre_attn_scalar != 0) {
    of_scores = 1 / std::sqrt(static_cast<double>(config.size("query_pre_attn_scalar", family.query_pre_attn_scalar)));
  }
  if (family.scales_embedding) architecture.embedding_scale = std::sqrt(static_cast<double>(architecture.hidden_size));
  if (family.multipliers) {
    of_scores = factor("attention_multiplier");
    architecture.embedding_scale = factor("embedding_multiplier");
    architecture.head_scale = 1 / factor("logits_scaling");
    for (LayerSpec& layer : architecture.layers) layer.added_scale = factor("residual_multiplier");
  }
  if (family.logit_scale != 0) architecture.head_scale = factor("logit_scale", family.logit_scale);
  if (!of_scores) return;
  // A power of two stays one: no rounding where the usual scale is meant.
  for (const auto& [rotary, head_dim] : {std::pair{&rotaries.full, heads.full}, {&rotaries.windowed, heads.windowed}}) {
    const double beside_usual = *of_scores * std::sqrt(static_cast<double>(head_dim));
    rotary->query_scale = std::abs(beside_usual - 1) < 1e-12 ? 1 : beside_usual;
  }
}

// Of what is turned of heads. Where no layer is of a kind, as the others have it.
HeadDims head_dims_of(const Architecture& architecture) {
  HeadDims heads;
  for (const LayerSpec& layer : architecture.layers) {
    const Attention& attention = layer.attention();
    (attention.window > 0 ? heads.windowed : heads.full) =
        attention.latent ? attention.latent->turned : attention.head_dim;
  }
  if (heads.full == 0) heads.full = heads.windowed;
  if (heads.windowed == 0) heads.windowed = heads.full;
  return heads;
}

// Whether a layer sees everything where layer_types is silent.
bool attends_to_all(const ConfigJson& config, const Family& family, int64_t layer) {
  if (family.full_attention_every == 0) return false;
  const int64_t every = family.sliding_window_pattern
                            ? config.size("sliding_window_pattern", family.full_attention_every)
                            : family.full_attention_every;
  return (family.full_attention_first ? layer : layer + 1) % every == 0;
}

// As transformers' configuration classes decide it.
void read_windows(const ConfigJson& config, const Family& family, std::vector<LayerSpec>& layers) {
  constexpr int64_t kDefaultFirstLayer = 28;
  const bool chosen = config.flag("use_sliding_window"), first_ones = family.windows == Windows::kChosenFirst,
             chooses = family.windows == Windows::kChosenLayers || first_ones;
  const bool reads_types = chooses || family.windows == Windows::kNamedLayers;
  if (family.windows == Windows::kNone) {
    for (const char* key : {"use_sliding_window", "sliding_window"}) {
      if (config.asked(key) != nullptr) config.refuse(key, "this family has no sliding window");
    }
  }
  int64_t window = 0, first = 0;
  const bool asks = chooses || family.windows == Windows::kEveryIfAsked;
  const bool has_window = family.windows != Windows::kNone && (chosen || !asks);
  if (has_window && !config.is_null("sliding_window")) {
    window = config.find("sliding_window") != nullptr ? config.size("sliding_window") : family.sliding_window;
  }
  if (chooses) first = config.integer("max_window_layers").value_or(kDefaultFirstLayer);
  std::vector<bool> slides;
  const auto types = config.layers_of_type("sliding_attention", layers.size());
  for (int64_t layer = 0; layer < std::ssize(layers) && !(types && reads_types); ++layer) {
    const bool among = first_ones ? layer < first && layer % 2 == 0 : layer >= first;
    slides.push_back(window > 0 && among && !attends_to_all(config, family, layer));
  }
  if (types) {
    if (!reads_types && *types != slides) {
      config.refuse(kLayerTypes, "does not say what every layer of " + std::string(family.name) + " does");
    }
    const bool slide = std::find(types->begin(), types->end(), true) != types->end();
    if (slide && window == 0) config.refuse(kLayerTypes, "names a sliding window, but there is none");
    slides = *types;
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].attention().window = slides[layer] ? window : 0;
}

void read_positions(const ConfigJson& config, const Family& family, Architecture& architecture) {
  const HeadDims heads = head_dims_of(architecture);
  RotaryOfLayers rotaries = read_rope(config, family, heads, architecture.max_position_embeddings);
  read_scales(config, family, heads, architecture, rotaries);
  const std::vector<bool> turned = read_turned_layers(config, family, architecture.layers.size());
  const bool every =
      !family.rotary.windows_alone || (family.rotary.all_without_windows && config.is_null("sliding_window"));
  for (size_t layer = 0; layer < turned.size(); ++layer) {
    Attention& attention = architecture.layers[layer].attention();
    const bool turns = turned[layer] && (attention.window > 0 || every);
    if (turns) attention.rotary = attention.window > 0 ? rotaries.windowed : rotaries.full;
    if (turns && attention.latent) {
      attention.rotary->still_front = attention.head_dim - attention.latent->turned;
      attention.rotary->width += attention.rotary->still_front;
    }
  }
}

void read_token_ids(const ConfigJson& config, const Family& family, Architecture& architecture) {
  const auto check = [&](const char* key, int64_t id) {
    if (id < 0 || id >= architecture.vocab_size) {
      config.refuse(key, "id " + std::to_string(id) + " is outside the vocabulary");
    }
    return id;
  };
  const auto has = [&](int64_t id) { return id < architecture.vocab_size; };
  const auto bos = config.integer("bos_token_id");
  if (bos) {
    architecture.bos_token_id = check("bos_token_id", *bos);
  } else if (!config.is_null("bos_token_id") && family.bos_token_id && has(*family.bos_token_id)) {
    architecture.bos_token_id = family.bos_token_id;
  }
  // Old folders write -1 for "none".
  if (auto id = config.integer("pad_token_id"); id && *id != -1) {
    architecture.pad_token_id = check("pad_token_id", *id);
  } else if (!id && !config.is_null("pad_token_id") && family.pad_token_id && has(*family.pad_token_id)) {
    architecture.pad_token_id = family.pad_token_id;
  }
  const Json* eos = config.find("eos_token_id");
  if (eos == nullptr) {
    if (!config.is_null("eos_token_id")) {
      std::copy_if(family.eos_token_ids.begin(), family.eos_token_ids.end(),
                   std::back_inserter(architecture.eos_token_ids), has);
    }
  } else if (!eos->is_array()) {
    architecture.eos_token_ids = {check("eos_token_id", config.as_integer("eos_token_id", *eos))};
  } else {
    architecture.eos_token_ids.clear();
    for (const Json& id : *eos) {
      architecture.eos_token_ids.push_back(check("eos_token_id", config.as_integer("eos_token_id", id)));
    }
  }
}

void read_decoder(const ConfigJson& config, const Family& family, Architecture& architecture) {
  refuse_other_models(config, family);
  check_activation(config, family);
  architecture.vocab_size = config.size("vocab_size");
  architecture.hidden_size = config.size("hidden_size");
  architecture.layers = read_layers(config, family, architecture.hidden_size);
  architecture.norm_eps = config.number(family.centred_norms ? "layer_norm_eps" : "rms_norm_eps", family.norm_eps, 0);
  architecture.norm_offset = family.norm_offset;
  architecture.centred_norms = family.centred_norms;
  architecture.max_position_embeddings = config.size("max_position_embeddings", family.max_position_embeddings);
  read_windows(config, family, architecture.layers);
  if (family.keys == Keys::kGemma4) read_full_layers(config, architecture.layers);
  if (family.latent) {
    const LatentHeads latent = read_latent(config, family);
    for (LayerSpec& layer : architecture.layers) layer.attention().latent = latent;
  }
  read_experts(config, family, architecture);
  read_positions(config, family, architecture);
  read_softcaps(config, family, architecture);
  if (family.dropout != 0) architecture.dropout = config.rate({kAttentionDropout, kResidualDropout}, family.dropout);
  const bool tied = config.find(kTied) == nullptr && family.tie_word_embeddings;
  architecture.tie_word_embeddings = tied || config.flag(kTied);
  architecture.initializer_range = config.number("initializer_range", 0.02, 0);
}

// What Llama's keys would say of a decoder whose own keys are others.
Json in_llamas_words(const ConfigJson& config, const Json& json, const Family& family) {
  switch (family.keys) {
    case Keys::kLfm2:
      return lfm2_in_llamas_words(config, json);
    case Keys::kGraniteHybrid:
      return granite_hybrid_in_llamas_words(config, json);
    case Keys::kGemma4:
      return gemma4_in_gemma3s_words(config, json);
    case Keys::kGptOss:
      return gpt_oss_in_llamas_words(config, json);
    case Keys::kLatent:
      return latent_in_llamas_words(config, json, family);
    case Keys::kQwen35: {
      Json words = json;
      words.erase(kLayerTypes);
      if (family.experts == ExpertKeys::kQwen35Moe) words["intermediate_size"] = 1;  // every layer has experts instead
      return words;
    }
    default:
      return json;
  }
}

void read_keys(const ConfigJson& config, const Json& json, std::string_view origin, const Family& family,
               Architecture& architecture) {
  if (family.keys == Keys::kT5) return read_t5(config, architecture);
  if (family.keys == Keys::kGpt2) return read_gpt2(config, architecture);
  const Json words = in_llamas_words(config, json, family);
  read_decoder(ConfigJson(words, origin), family, architecture);
  if (family.keys == Keys::kLfm2) read_convolutions(config, architecture);
  if (family.keys == Keys::kQwen35) read_deltas(config, architecture);
  if (family.keys == Keys::kGptOss) {
    for (LayerSpec& layer : architecture.layers) layer.attention().sinks = true;
  }
}

}  // namespace

Architecture parse_architecture(const Json& json, std::string_view origin) {
  if (std::optional<TextWords> words = text_words(json, origin)) {
    Architecture architecture = parse_architecture(words->config, words->origin);
    architecture.text_part = std::move(words->part);
    return architecture;
  }
  const ConfigJson config(json, origin);
  const Family& family = read_family(config);
  Architecture architecture;
  architecture.family = family.name;
  read_keys(config, json, origin, family, architecture);
  read_storage(config, origin, family, architecture);
  read_token_ids(config, family, architecture);
  // Every size in bytes must fit, with room for the optimizer's states.
  checked_multiply(parameter_count(architecture), 64, std::string(origin) + ": bytes of the parameters");
  return architecture;
}

}  // namespace fathom::arch
