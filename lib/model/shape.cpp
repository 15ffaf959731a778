// Reads config.json of a Llama into numbers, refusing what this decoder would compute differently.
#include "model/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/error.h"

namespace fathom::model {
namespace {

constexpr int64_t kMaxSize = int64_t{1} << 31;  // of any one dimension
constexpr int64_t kMaxLayers = 10'000;

// config.json with its name, so that each complaint says file and key.
class Reader {
 public:
  Reader(const Json& config, std::string_view origin) : config_(config), origin_(origin) {
    if (!config.is_object()) throw Error(origin_ + ": expected an object");
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& why, const std::string& remedy = "") const {
    throw Error(origin_ + ": " + key + ": " + why, remedy);
  }
  // Null if the key is absent or null.
  const Json* find(const std::string& key) const {
    auto found = config_.find(key);
    return found == config_.end() || found->is_null() ? nullptr : &*found;
  }
  std::optional<int64_t> integer(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    return as_integer(key, *value);
  }
  int64_t size(const std::string& key, std::optional<int64_t> fallback = std::nullopt) const {
    std::optional<int64_t> value = integer(key);
    if (!value) value = fallback;
    if (!value) refuse(key, "is missing");
    if (*value < 1 || *value > kMaxSize) {
      refuse(key, "expected 1 to " + std::to_string(kMaxSize) + ", got " + std::to_string(*value));
    }
    return *value;
  }
  double number(const std::string& key, double fallback, double least) const {
    const Json* value = find(key);
    return value == nullptr ? fallback : as_number(key, *value, least);
  }
  double as_number(const std::string& key, const Json& value, double least) const {
    if (!value.is_number()) refuse(key, "expected a number, got " + value.dump());
    const double result = value.get<double>();
    if (!std::isfinite(result) || result < least) refuse(key, "is out of range: " + value.dump());
    return result;
  }
  bool flag(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) refuse(key, "expected true or false, got " + value->dump());
    return value->get<bool>();
  }
  int64_t as_integer(const std::string& key, const Json& value) const {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()}
                          : value.is_number_integer();
    if (!fits) refuse(key, "expected a whole number, got " + value.dump());
    return value.get<int64_t>();
  }

 private:
  const Json& config_;
  std::string origin_;
};

std::string read_architecture(const Reader& reader) {
  static constexpr char kOnly[] = "LlamaForCausalLM";
  const std::string remedy = "The decoder that there is: LlamaForCausalLM (model_type llama).";
  if (const Json* names = reader.find("architectures")) {
    if (!names->is_array() || names->size() != 1 || (*names)[0] != kOnly) {
      reader.refuse("architectures", names->dump() + " is not supported", remedy);
    }
    return kOnly;
  }
  const Json* type = reader.find("model_type");
  if (type == nullptr || *type != "llama") {
    reader.refuse("model_type", (type == nullptr ? "missing" : type->dump()) + " is not supported", remedy);
  }
  return kOnly;
}

void refuse_scaled_rope(const Reader& reader, const std::string& key, const Json& rope, ScaledPositions scaled) {
  if (!rope.is_object()) reader.refuse(key, "expected an object, got " + rope.dump());
  if (scaled == ScaledPositions::kIgnored) return;
  for (const char* name : {"rope_type", "type"}) {
    if (rope.contains(name) && !rope[name].is_null() && rope[name] != "default") {
      reader.refuse(key + "." + name, rope[name].dump() + " (scaled positions) is not supported");
    }
  }
  if (rope.contains("partial_rotary_factor") && rope["partial_rotary_factor"] != 1) {
    reader.refuse(key + ".partial_rotary_factor", "only 1 is supported");
  }
}

// transformers 5: rope_parameters {rope_theta, rope_type}; transformers 4: rope_theta beside rope_scaling.
double read_rope_theta(const Reader& reader, ScaledPositions scaled) {
  if (const Json* scaling = reader.find("rope_scaling")) refuse_scaled_rope(reader, "rope_scaling", *scaling, scaled);
  std::optional<double> theta;
  if (const Json* rope = reader.find("rope_parameters")) {
    refuse_scaled_rope(reader, "rope_parameters", *rope, scaled);
    if (rope->contains("rope_theta")) theta = reader.as_number("rope_parameters.rope_theta", (*rope)["rope_theta"], 1);
  }
  const double old_spelling = reader.number("rope_theta", theta.value_or(10000), 1);
  if (theta && *theta != old_spelling) reader.refuse("rope_theta", "differs from rope_parameters.rope_theta");
  return old_spelling;
}

// Keys that change the computation in ways this decoder does not have.
void refuse_other_models(const Reader& reader) {
  for (const char* key : {"attention_bias", "mlp_bias", "use_sliding_window", "is_encoder_decoder"}) {
    if (reader.flag(key)) reader.refuse(key, "true is not supported");
  }
  for (const char* key : {"sliding_window", "quantization_config", "layer_types", "num_local_experts"}) {
    if (const Json* value = reader.find(key)) reader.refuse(key, "not supported: " + value->dump().substr(0, 80));
  }
  if (reader.number("attention_dropout", 0, 0) != 0) reader.refuse("attention_dropout", "only 0 is supported");
  if (reader.number("partial_rotary_factor", 1, 0) != 1) reader.refuse("partial_rotary_factor", "only 1 is supported");
  const Json* activation = reader.find("hidden_act");
  if (activation != nullptr && *activation != "silu") {
    reader.refuse("hidden_act", activation->dump() + " is not supported (only silu)");
  }
}

void read_heads(const Reader& reader, ModelShape& shape) {
  shape.num_attention_heads = reader.size("num_attention_heads");
  shape.num_key_value_heads = reader.size("num_key_value_heads", shape.num_attention_heads);
  if (shape.num_attention_heads % shape.num_key_value_heads != 0) {
    reader.refuse("num_key_value_heads", std::to_string(shape.num_key_value_heads) +
                                             " does not divide num_attention_heads " +
                                             std::to_string(shape.num_attention_heads));
  }
  if (!reader.find("head_dim") && shape.hidden_size % shape.num_attention_heads != 0) {
    reader.refuse("num_attention_heads", "does not divide hidden_size, and there is no head_dim");
  }
  shape.head_dim = reader.size("head_dim", std::max<int64_t>(1, shape.hidden_size / shape.num_attention_heads));
  if (shape.head_dim % 2 != 0) reader.refuse("head_dim", "rotary positions need an even size of heads");
}

void read_token_ids(const Reader& reader, ModelShape& shape) {
  auto check = [&](const char* key, int64_t id) {
    if (id < 0 || id >= shape.vocab_size) reader.refuse(key, "id " + std::to_string(id) + " is outside the vocabulary");
    return id;
  };
  if (auto id = reader.integer("bos_token_id")) shape.bos_token_id = check("bos_token_id", *id);
  // Old folders write -1 for "none".
  if (auto id = reader.integer("pad_token_id"); id && *id != -1) shape.pad_token_id = check("pad_token_id", *id);
  const Json* eos = reader.find("eos_token_id");
  if (eos == nullptr) return;
  if (!eos->is_array()) {
    shape.eos_token_ids = {check("eos_token_id", reader.as_integer("eos_token_id", *eos))};
    return;
  }
  for (const Json& id : *eos) {
    shape.eos_token_ids.push_back(check("eos_token_id", reader.as_integer("eos_token_id", id)));
  }
}

DType read_dtype(const Reader& reader) {
  const char* key = reader.find("dtype") ? "dtype" : "torch_dtype";
  const Json* value = reader.find(key);
  if (value == nullptr) return DType::kF32;
  if (!value->is_string()) reader.refuse(key, "expected the name of a type, got " + value->dump());
  if (*value == "auto") return DType::kF32;
  DType type = DType::kF32;
  try {
    type = dtype_from_name(value->get<std::string>());
  } catch (const Error& error) {
    reader.refuse(key, error.what());
  }
  if (!is_floating(type)) reader.refuse(key, value->dump() + " is not a floating-point type");
  return type;
}

struct Linear {
  const char* name;  // within a layer
  std::vector<int64_t> shape;
};

std::vector<Linear> attention_layers(const ModelShape& shape) {
  const int64_t queries = shape.num_attention_heads * shape.head_dim;
  const int64_t keys = shape.num_key_value_heads * shape.head_dim;
  return {{"self_attn.q_proj", {queries, shape.hidden_size}},
          {"self_attn.k_proj", {keys, shape.hidden_size}},
          {"self_attn.v_proj", {keys, shape.hidden_size}},
          {"self_attn.o_proj", {shape.hidden_size, queries}}};
}

std::vector<Linear> feed_forward_layers(const ModelShape& shape) {
  return {{"mlp.gate_proj", {shape.intermediate_size, shape.hidden_size}},
          {"mlp.up_proj", {shape.intermediate_size, shape.hidden_size}},
          {"mlp.down_proj", {shape.hidden_size, shape.intermediate_size}}};
}

bool ends_with_module(const std::string& name, const std::string& target) {
  return name == target || name.ends_with("." + target);
}

}  // namespace

ModelShape parse_model_shape(const Json& config, std::string_view origin, ScaledPositions scaled) {
  const Reader reader(config, origin);
  ModelShape shape;
  shape.architecture = read_architecture(reader);
  refuse_other_models(reader);
  shape.vocab_size = reader.size("vocab_size");
  shape.hidden_size = reader.size("hidden_size");
  shape.intermediate_size = reader.size("intermediate_size");
  shape.num_hidden_layers = reader.size("num_hidden_layers");
  if (shape.num_hidden_layers > kMaxLayers) reader.refuse("num_hidden_layers", "expected at most 10000");
  read_heads(reader, shape);
  shape.rms_norm_eps = reader.number("rms_norm_eps", 1e-6, 0);
  shape.rope_theta = read_rope_theta(reader, scaled);
  shape.tie_word_embeddings = reader.flag("tie_word_embeddings");
  shape.initializer_range = reader.number("initializer_range", 0.02, 0);
  shape.max_position_embeddings = reader.size("max_position_embeddings", 2048);
  shape.dtype = read_dtype(reader);
  read_token_ids(reader, shape);
  // Every size in bytes must fit, with room for the optimizer's states.
  checked_multiply(parameter_count(shape), 64, std::string(origin) + ": bytes of the parameters");
  return shape;
}

int64_t ParameterSpec::elements() const {
  int64_t count = 1;
  for (int64_t size : shape) count = checked_multiply(count, size, name);
  return count;
}

std::vector<ParameterSpec> parameter_specs(const ModelShape& shape) {
  std::vector<ParameterSpec> specs;
  specs.push_back({"model.embed_tokens.weight", {shape.vocab_size, shape.hidden_size}});
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    specs.push_back({prefix + "input_layernorm.weight", {shape.hidden_size}});
    for (Linear& linear : attention_layers(shape)) specs.push_back({prefix + linear.name + ".weight", linear.shape});
    specs.push_back({prefix + "post_attention_layernorm.weight", {shape.hidden_size}});
    for (Linear& linear : feed_forward_layers(shape)) specs.push_back({prefix + linear.name + ".weight", linear.shape});
  }
  specs.push_back({"model.norm.weight", {shape.hidden_size}});
  if (!shape.tie_word_embeddings) specs.push_back({"lm_head.weight", {shape.vocab_size, shape.hidden_size}});
  return specs;
}

int64_t parameter_count(const ModelShape& shape) {
  int64_t count = 0;
  for (const ParameterSpec& spec : parameter_specs(shape)) {
    count = checked_add(count, spec.elements(), "number of parameters");
  }
  return count;
}

std::vector<std::string> adapted_modules(const ModelShape& shape, const std::vector<std::string>& targets) {
  static const std::vector<std::string> kDefault = {"q_proj", "v_proj"};
  const std::vector<std::string>& wanted = targets.empty() ? kDefault : targets;
  const bool all = wanted.size() == 1 && wanted[0] == "all-linear";

  std::vector<bool> matched(wanted.size(), all);
  std::vector<std::string> modules;
  for (int64_t layer = 0; layer < shape.num_hidden_layers; ++layer) {
    std::vector<Linear> linears = attention_layers(shape);
    for (Linear& linear : feed_forward_layers(shape)) linears.push_back(std::move(linear));
    for (const Linear& linear : linears) {
      const std::string name = "model.layers." + std::to_string(layer) + "." + linear.name;
      bool adapted = all;
      for (size_t index = 0; index < wanted.size(); ++index) {
        if (!ends_with_module(name, wanted[index])) continue;
        adapted = matched[index] = true;
      }
      if (adapted) modules.push_back(name);
    }
  }
  for (size_t index = 0; index < wanted.size(); ++index) {
    if (matched[index]) continue;
    throw UsageError("target_modules: '" + wanted[index] + "' matches no linear layer that can be adapted",
                     "Name q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, or all-linear alone.");
  }
  return modules;
}

}  // namespace fathom::model
