// Reads the config.json of a model, refusing what this program would compute differently.
#include <algorithm>
#include <iterator>

#include "arch/architecture.h"
#include "arch/config_json.h"
#include "arch/families.h"
#include "arch/read_experts.h"
#include "arch/read_t5.h"
#include "base/bytes.h"
#include "base/error.h"

namespace fathom::arch {
namespace {

constexpr int64_t kMaxLayers = 10'000;
constexpr char kFullAttention[] = "full_attention", kSlidingAttention[] = "sliding_attention";

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
    config.refuse("architectures", names->dump().substr(0, 80) + " is not supported", known_families());
  }
  for (const Family& family : families()) {
    if (names != nullptr ? (*names)[0] != family.name : type == nullptr || *type != family.model_type) continue;
    if (type != nullptr && *type != family.model_type) {
      config.refuse("model_type", type->dump().substr(0, 80) + " does not belong to " + std::string(family.name) +
                                      ", which architectures names");
    }
    return family;
  }
  const Json* found = names != nullptr ? names : type;
  config.refuse(names != nullptr ? "architectures" : "model_type",
                (found == nullptr ? "missing" : found->dump().substr(0, 80)) + " is not supported", known_families());
}

// Keys that change the computation in ways this decoder does not have.
void refuse_other_models(const ConfigJson& config) {
  if (config.flag("is_encoder_decoder")) config.refuse("is_encoder_decoder", "true is not supported");
  if (config.number("attention_dropout", 0, 0) != 0) config.refuse("attention_dropout", "only 0 is supported");
  if (config.number("partial_rotary_factor", 1, 0) != 1) config.refuse("partial_rotary_factor", "only 1 is supported");
  const Json* activation = config.find("hidden_act");
  if (activation != nullptr && *activation != "silu") {
    config.refuse("hidden_act", activation->dump() + " is not supported (only silu)");
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
  if (config.find("head_dim") || family.head_dim != 0) {
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
    return bias == Bias::kAlways || (bias == Bias::kByKey && config.flag(key));
  };
  layer.attention.input_bias = has(family.input_bias, "attention_bias");
  layer.attention.output_bias = has(family.output_bias, "attention_bias");
  layer.feed_forward.bias = has(family.feed_forward_bias, "mlp_bias");
}

// All alike; read_windows sets apart those that slide.
std::vector<LayerSpec> read_layers(const ConfigJson& config, const Family& family, int64_t hidden_size) {
  LayerSpec layer;
  layer.norms = family.norms;
  layer.attention.query_key_norm = family.query_key_norm;
  layer.feed_forward.width = config.size("intermediate_size");
  const int64_t layers = config.size("num_hidden_layers");
  if (layers > kMaxLayers) config.refuse("num_hidden_layers", "expected at most 10000");
  read_heads(config, family, hidden_size, layer.attention);
  read_biases(config, family, layer);
  return std::vector<LayerSpec>(static_cast<size_t>(layers), layer);
}

// The entries of rope_parameters or rope_scaling, whose key is `key`.
std::optional<ScaledRope> read_scaled_rope(const ConfigJson& config, const std::string& key, const Json& rope,
                                           int64_t max_positions) {
  if (!rope.is_object()) config.refuse(key, "expected an object, got " + rope.dump().substr(0, 80));
  const auto find = [&](const char* name) {
    const auto found = rope.find(name);
    return found == rope.end() || found->is_null() ? nullptr : &*found;
  };
  const auto number = [&](const char* name, double least) {
    const std::string path = key + "." + name;
    const Json* value = find(name);
    if (value == nullptr) config.refuse(path, "is missing");
    return config.as_number(path, *value, least);
  };
  if (find("partial_rotary_factor") != nullptr && number("partial_rotary_factor", 0) != 1) {
    config.refuse(key + ".partial_rotary_factor", "only 1 is supported");
  }
  const char* type_key = find("rope_type") != nullptr ? "rope_type" : "type";
  const Json* type = find(type_key);
  if (type == nullptr || *type == "default") return std::nullopt;
  if (*type != "llama3") {
    config.refuse(key + "." + type_key, type->dump().substr(0, 80) + " is not supported (default and llama3 are)");
  }
  ScaledRope scaled;
  scaled.factor = number("factor", 1);
  scaled.low_frequency_factor = number("low_freq_factor", 1e-6);
  scaled.high_frequency_factor = number("high_freq_factor", 1e-6);
  if (scaled.high_frequency_factor <= scaled.low_frequency_factor) {
    config.refuse(key + ".high_freq_factor", "is not above low_freq_factor");
  }
  // A key beside rope_parameters comes first, as in transformers.
  scaled.original_positions = max_positions;
  if (const Json* value = find("original_max_position_embeddings")) {
    scaled.original_positions = config.as_size(key + ".original_max_position_embeddings", *value);
  }
  scaled.original_positions = config.size("original_max_position_embeddings", scaled.original_positions);
  return scaled;
}

// transformers 5: rope_parameters {rope_theta, rope_type}; transformers 4: rope_theta beside rope_scaling.
void read_rope(const ConfigJson& config, const Family& family, Architecture& architecture) {
  architecture.rope_scaling = family.rope_scaling;
  const int64_t positions = architecture.max_position_embeddings;
  std::optional<double> theta;
  const Json* found = nullptr;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = config.find(key);
    if (rope == nullptr) continue;
    const auto scaling = read_scaled_rope(config, key, *rope, positions);
    if (found != nullptr && scaling != architecture.rope_scaling) config.refuse(key, "differs from rope_parameters");
    architecture.rope_scaling = scaling;
    found = rope;
    const std::string path = std::string(key) + ".rope_theta";
    if (!rope->contains("rope_theta") || (*rope)["rope_theta"].is_null()) continue;
    const double said = config.as_number(path, (*rope)["rope_theta"], 1);
    if (theta && *theta != said) config.refuse(path, "differs from rope_parameters.rope_theta");
    theta = said;
  }
  architecture.rope_theta = config.number("rope_theta", theta.value_or(family.rope_theta), 1);
  if (theta && *theta != architecture.rope_theta) {
    config.refuse("rope_theta", "differs from rope_parameters.rope_theta");
  }
}

// True for each layer that layer_types makes slide; nothing where there is no such key.
std::optional<std::vector<bool>> read_layer_types(const ConfigJson& config, size_t layers) {
  const Json* types = config.find("layer_types");
  if (types == nullptr) return std::nullopt;
  if (!types->is_array() || types->size() != layers) {
    config.refuse("layer_types", "expected a list of as many types as num_hidden_layers");
  }
  std::vector<bool> slides;
  for (const Json& type : *types) {
    if (type != kFullAttention && type != kSlidingAttention) {
      config.refuse("layer_types", type.dump().substr(0, 80) + " is not supported");
    }
    slides.push_back(type == kSlidingAttention);
  }
  return slides;
}

// As transformers' configuration classes decide it.
void read_windows(const ConfigJson& config, const Family& family, std::vector<LayerSpec>& layers) {
  constexpr int64_t kDefaultFirstLayer = 28;
  const bool chosen = config.flag("use_sliding_window"), chooses = family.windows == Windows::kChosenLayers;
  const bool reads_types = chooses || family.windows == Windows::kNamedLayers;
  if (family.windows == Windows::kNone) {
    if (chosen) config.refuse("use_sliding_window", "this family has no sliding window");
    if (config.find("sliding_window")) config.refuse("sliding_window", "this family has no sliding window");
  }
  int64_t window = 0, first = 0;
  const bool asks = chooses || family.windows == Windows::kEveryIfAsked;
  const bool has_window = family.windows != Windows::kNone && (chosen || !asks);
  if (has_window && !config.is_null("sliding_window")) {
    window = config.size("sliding_window", family.sliding_window);
  }
  if (chooses) first = config.integer("max_window_layers").value_or(kDefaultFirstLayer);
  std::vector<bool> slides;
  for (int64_t layer = 0; layer < std::ssize(layers); ++layer) {
    const bool attends_to_all = family.full_attention_every > 0 && layer % family.full_attention_every == 0;
    slides.push_back(window > 0 && layer >= first && !attends_to_all);
  }
  if (const auto types = read_layer_types(config, layers.size())) {
    if (!reads_types && *types != slides) {
      config.refuse("layer_types", "does not say what every layer of " + std::string(family.name) + " does");
    }
    const bool slide = std::find(types->begin(), types->end(), true) != types->end();
    if (slide && window == 0) config.refuse("layer_types", "names a sliding window, but there is none");
    slides = *types;
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer].attention.window = slides[layer] ? window : 0;
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
  if (auto id = config.integer("pad_token_id"); id && *id != -1) architecture.pad_token_id = check("pad_token_id", *id);
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

DType read_dtype(const ConfigJson& config) {
  const char* key = config.find("dtype") ? "dtype" : "torch_dtype";
  const Json* value = config.find(key);
  if (value == nullptr) return DType::kF32;
  if (!value->is_string()) config.refuse(key, "expected the name of a type, got " + value->dump());
  if (*value == "auto") return DType::kF32;
  DType type = DType::kF32;
  try {
    type = dtype_from_name(value->get<std::string>());
  } catch (const Error& error) {
    config.refuse(key, error.what());
  }
  if (!is_floating(type)) config.refuse(key, value->dump() + " is not a floating-point type");
  return type;
}

void read_decoder(const ConfigJson& config, const Family& family, Architecture& architecture) {
  refuse_other_models(config);
  architecture.vocab_size = config.size("vocab_size");
  architecture.hidden_size = config.size("hidden_size");
  architecture.layers = read_layers(config, family, architecture.hidden_size);
  architecture.rms_norm_eps = config.number("rms_norm_eps", family.rms_norm_eps, 0);
  architecture.max_position_embeddings = config.size("max_position_embeddings", family.max_position_embeddings);
  read_rope(config, family, architecture);
  read_windows(config, family, architecture.layers);
  read_experts(config, family, architecture);
  architecture.tie_word_embeddings = config.flag("tie_word_embeddings");
  architecture.initializer_range = config.number("initializer_range", 0.02, 0);
}

}  // namespace

Architecture parse_architecture(const Json& json, std::string_view origin) {
  const ConfigJson config(json, origin);
  const Family& family = read_family(config);
  Architecture architecture;
  architecture.family = family.name;
  if (family.is_encoder_decoder) {
    read_t5(config, architecture);
  } else {
    read_decoder(config, family, architecture);
  }
  architecture.dtype = read_dtype(config);
  if (const Json* quantization = config.find("quantization_config")) {
    if (architecture.experts() != nullptr) {
      config.refuse("quantization_config", "folders of models with experts are read in floating point alone",
                    "name the folder before it was quantized, with load_in_4bit: true for a base of NF4");
    }
    architecture.quantized = quant::parse_quantization_config(*quantization, origin);
  }
  read_token_ids(config, family, architecture);
  // Every size in bytes must fit, with room for the optimizer's states.
  checked_multiply(parameter_count(architecture), 64, std::string(origin) + ": bytes of the parameters");
  return architecture;
}

}  // namespace fathom::arch
