// Two tables, after transformers 5's configuration_*.py and conversion_mapping.py: classes of whole models, and types
// of text parts.
#include "arch/read_text_part.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "arch/config_json.h"
#include "arch/families.h"
#include "base/error.h"
#include "base/json_value.h"

namespace fathom::arch {
namespace {

constexpr const char* kTextConfig = "text_config";

// Tokens in whose place something else stands: a key, another name of it, and its default.
struct Placeholder {
  const char *key, *other_name;
  int64_t id;
};

// What the text part's names begin with in files, as TextPart's.
struct Prefixes {
  const char *model, *head;
};
constexpr Prefixes kInside{"model.language_model.", "lm_head."}, kAsAlone{"model.", "lm_head."};
constexpr Prefixes kWrapped{"language_model.model.", "language_model.lm_head."};

struct WholeModel {
  std::string_view model_type, name;
  std::string_view text_type;  // where text_config does not say it
  Prefixes prefixes;
  std::vector<Placeholder> placeholders;
  bool tied = false;  // where tie_word_embeddings is silent
  bool flat = false;  // older folders have the text part's keys beside the others; tied in text_config counts
};

const std::vector<WholeModel>& whole_models() {
  using Placeholders = std::vector<Placeholder>;
  constexpr bool kTied = true, kFlat = true;
  const Placeholders gemma3 = {{"image_token_index", "image_token_id", 262144}};
  const Placeholders gemma4 = {
      {"image_token_id", "", 258880}, {"video_token_id", "", 258884}, {"audio_token_id", "", 258881}};
  const Placeholders mistral3 = {{"image_token_index", "image_token_id", 10}};
  const Placeholders qwen = {{"image_token_id", "image_token_index", 151655}, {"video_token_id", "", 151656}};
  const Placeholders qwen35 = {{"image_token_id", "", 248056}, {"video_token_id", "", 248057}};
  static const std::vector<WholeModel> table = {
      {"gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", kWrapped, gemma3, kTied},
      {"gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", kInside, gemma4, kTied},
      {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", "gemma4_unified_text", kInside, gemma4, kTied},
      {"mistral3", "Mistral3ForConditionalGeneration", "mistral", kWrapped, mistral3, kTied},
      {"qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text", kAsAlone, qwen, !kTied, kFlat},
      {"qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", kAsAlone, qwen, !kTied, kFlat},
      {"qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", kInside, qwen},
      {"qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", kInside, qwen35},
      {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", kInside, qwen35},
  };
  return table;
}

using Words = std::vector<std::pair<const char*, Json>>;

// The family that a type of text part is of, and what its class says where the family's row and config.json are silent.
struct TextType {
  std::string_view model_type, family;
  Words defaults;
  double rope_theta = 0;  // 0: as the family
};

// `intermediate` is 0 where every layer has experts instead.
Words sizes(int64_t vocabulary, int64_t hidden, int64_t intermediate, int64_t layers, int64_t heads,
            Words others = {}) {
  others.insert(others.end(), {{"vocab_size", vocabulary},
                               {"hidden_size", hidden},
                               {"num_hidden_layers", layers},
                               {"num_attention_heads", heads}});
  if (intermediate > 0) others.emplace_back("intermediate_size", intermediate);
  return others;
}

const std::vector<TextType>& text_types() {
  const Words qwen2 = sizes(152064, 8192, 29568, 80, 64,
                            {{"num_key_value_heads", 8}, {"max_window_layers", 80}, {"rms_norm_eps", 1e-5}});
  const Words qwen3 = sizes(151936, 4096, 22016, 32, 32, {{"max_position_embeddings", 128000}});
  const Words of_unified = {
      {"max_position_embeddings", 262144}, {"sliding_window", 1024}, {"hidden_size_per_layer_input", 0}};
  static const std::vector<TextType> table = {
      {"gemma3_text", "Gemma3ForCausalLM", sizes(262208, 2304, 9216, 26, 8)},
      {"gemma4_text", "Gemma4ForCausalLM", sizes(262144, 2304, 9216, 30, 8)},
      {"gemma4_unified_text", "Gemma4ForCausalLM", sizes(262144, 2304, 9216, 30, 8, of_unified)},
      {"mistral", "MistralForCausalLM", sizes(32000, 4096, 14336, 32, 32)},
      {"ministral3", "Ministral3ForCausalLM", sizes(131072, 4096, 14336, 34, 32)},
      {"mistral4", "Mistral4ForCausalLM", sizes(131072, 4096, 12288, 36, 32)},
      {"qwen2_vl_text", "Qwen2ForCausalLM", qwen2, 1e6},
      {"qwen2_5_vl_text", "Qwen2ForCausalLM", qwen2, 1e6},
      {"qwen3_vl_text", "Qwen3ForCausalLM", qwen3, 5e5},
      {"qwen3_5_text", "Qwen3_5ForCausalLM", sizes(248320, 4096, 12288, 32, 16)},
      {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", sizes(248320, 2048, 0, 40, 16)},
  };
  return table;
}

template <typename Row>
const Row* row_of(const std::vector<Row>& table, const Json* type) {
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Row& row) { return type != nullptr && *type == row.model_type; });
  return found == table.end() ? nullptr : &*found;
}

bool is_class_of(const ConfigJson& config, const WholeModel& model) {
  const Json* names = config.find("architectures");
  return names != nullptr && *names == Json::array({model.name});
}

// By model_type; by architectures where that is silent.
const WholeModel* whole_model_of(const ConfigJson& config) {
  if (const Json* type = config.find("model_type")) return row_of(whole_models(), type);
  const auto& all = whole_models();
  const auto found = std::ranges::find_if(all, [&](const WholeModel& model) { return is_class_of(config, model); });
  return found == all.end() ? nullptr : &*found;
}

// Of a folder that holds nothing else: what took the text part out of another left the whole model's class in
// architectures.
const TextType* lone_text_type(const ConfigJson& config) {
  const bool of_whole =
      std::ranges::any_of(whole_models(), [&](const WholeModel& model) { return is_class_of(config, model); });
  return of_whole ? row_of(text_types(), config.find("model_type")) : nullptr;
}

// Three grids of positions are one for text, and mrope is what each of them is.
void without_grids(Json& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto rope = config.find(key);
    if (rope == config.end() || !rope->is_object()) continue;
    const char* type = rope->contains("rope_type") ? "rope_type" : "type";
    if (rope->value(type, Json()) == "mrope") (*rope)["rope_type"] = "default";
  }
}

bool says_theta(const Json& config) {
  if (config.contains("rope_theta")) return true;
  return std::ranges::any_of(std::array{"rope_parameters", "rope_scaling"}, [&](const char* key) {
    return config.contains(key) && config[key].is_object() && config[key].contains("rope_theta");
  });
}

// In the words of the family: what is silent gets the defaults of the type.
void as_family(Json& config, const TextType& type) {
  const auto& all = families();
  const auto family = std::find_if(all.begin(), all.end(), [&](const Family& row) { return row.name == type.family; });
  config["model_type"] = family->model_type;
  config["architectures"] = {type.family};
  for (const auto& [key, value] : type.defaults) {
    if (!config.contains(key)) config[key] = value;
  }
  if (type.rope_theta != 0 && !says_theta(config)) config["rope_theta"] = type.rope_theta;
  without_grids(config);
}

std::string known_types() {
  std::string names;
  for (const TextType& type : text_types()) names.append(names.empty() ? "" : ", ").append(type.model_type);
  return "the types of text parts that there are: " + names + "; " + std::string(kOthersArePlanned);
}

bool is_true(const Json* value) { return value != nullptr && *value == true; }

TextPart part_of(const ConfigJson& config, const WholeModel& model) {
  TextPart part{std::string(model.model_type), std::string(model.name), model.prefixes.model, model.prefixes.head, {}};
  for (const Placeholder& each : model.placeholders) {
    const std::string key = config.find(each.key) == nullptr && *each.other_name != '\0' ? each.other_name : each.key;
    part.placeholder_ids.push_back(config.integer(key).value_or(each.id));
  }
  return part;
}

bool says(const Json& config, const char* key) { return config.contains(key) && !config[key].is_null(); }

// The type of the whole model counts; of the rest, what the text part says itself.
void add_from_outside(const Json& whole, Json& text) {
  constexpr std::array kTypes{"dtype", "torch_dtype"};
  if (std::ranges::any_of(kTypes, [&](const char* key) { return says(whole, key); })) {
    for (const char* key : kTypes) text[key] = whole.value(key, Json());
  }
  for (const char* key : {kQuantization, "bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (says(whole, key) && !says(text, key)) text[key] = whole[key];
  }
}

}  // namespace

Json& text_config_of(Json& config) {
  const auto text = config.find(kTextConfig);
  return text != config.end() && text->is_object() ? *text : config;
}

std::optional<TextWords> text_words(const Json& json, std::string_view origin) {
  const ConfigJson config(json, origin);
  const WholeModel* model = whole_model_of(config);
  if (model == nullptr) {
    const TextType* type = lone_text_type(config);
    if (type == nullptr) return std::nullopt;
    TextWords words{json, std::string(origin), std::nullopt};
    as_family(words.config, *type);
    return words;
  }
  const Json* text = config.find(kTextConfig);
  if (text == nullptr && !model->flat) {
    config.refuse(kTextConfig, "is missing, and says what the text part of " + std::string(model->name) + " is",
                  "take the config.json that belongs to the weights");
  }
  if (text != nullptr && !text->is_object()) config.refuse(kTextConfig, "expected an object");
  TextWords words{text != nullptr ? *text : json, std::string(origin), part_of(config, *model)};
  if (text != nullptr) words.origin += ": " + std::string(kTextConfig);
  const Json said = text != nullptr ? text->value("model_type", Json()) : Json();
  const Json type_name = said.is_null() ? Json(model->text_type) : said;
  const TextType* type = row_of(text_types(), &type_name);
  if (type == nullptr) {
    ConfigJson(words.config, words.origin)
        .refuse("model_type", type_name.dump().substr(0, 80) + " is not supported", known_types());
  }
  if (text != nullptr) add_from_outside(json, words.config);
  // The class that owns the head asks its own key.
  const Json* tied = config.find(kTied);
  const bool inside = model->flat && text != nullptr && is_true(ConfigJson(*text, words.origin).find(kTied));
  words.config[kTied] = tied != nullptr ? Json(is_true(tied) || inside) : Json(model->tied || inside);
  as_family(words.config, *type);
  return words;
}

}  // namespace fathom::arch
