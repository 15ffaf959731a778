// One function for each library's quantization_config; what it says that would be computed otherwise is refused.
#include "quant/folder_format.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"
#include "base/json_value.h"
#include "quant/folder_tensors.h"
#include "quant/left_out.h"

namespace fathom::quant {
namespace {

constexpr const char* kKnown =
    "known are bitsandbytes (INT8, NF4), compressed-tensors (FP8 and INT8 by row or tensor, INT4 in groups of 128, "
    "64, 32 or 16), fp8 (in blocks of 128 x 128) and mxfp4 (experts of gpt-oss); of another, take the folder before it "
    "was quantized, and `fathom quantize` or load_in_4bit";
constexpr const char *kMethod = "quant_method", *kMxfp4 = "mxfp4", *kFp8 = "fp8";
constexpr const char *kLeftOut = "modules_to_not_convert", *kIgnored = "ignored_layers";

// The rows and columns of a block of FP8.
Json fp8_block() { return {kFp8BlockRows, block_of(Scheme::kFp8Block128)}; }

std::string shown(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 80);
}

// An object within config.json: every value of the kind and content that is expected, or an Error with its path.
class Section {
 public:
  Section(const Json& json, std::string_view origin, std::string path)
      : json_(json), origin_(origin), path_(std::move(path)) {
    if (!json.is_object()) refuse("", "expected an object, got " + shown(json));
  }

  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    throw Error(origin_ + ": " + path_ + (key.empty() ? "" : "." + key) + ": " + why, kKnown);
  }
  // Null where it is absent or null.
  const Json* find(const std::string& key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  bool flag(const std::string& key) const {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "expected true or false, got " + shown(*value));
    return value != nullptr && value->get<bool>();
  }
  std::string text(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) refuse(key, "is missing");
    if (!value->is_string()) refuse(key, "expected a string, got " + shown(*value));
    return value->get<std::string>();
  }
  void expect(const std::string& key, const Json& expected) const {
    const Json* value = find(key);
    if (value == nullptr) refuse(key, "is missing; expected " + shown(expected));
    if (*value != expected) refuse(key, "expected " + shown(expected) + ", got " + shown(*value));
  }
  void expect_if_there(const std::string& key, const Json& expected) const {
    if (find(key) != nullptr) expect(key, expected);
  }
  Section section(const std::string& key) const {
    const Json* value = find(key);
    if (value == nullptr) refuse(key, "is missing");
    return {*value, origin_, path_ + "." + key};
  }
  const Json& json() const { return json_; }

 private:
  const Json& json_;
  std::string origin_, path_;
};

// What never has codes, and nothing else.
void check_left_out(const Section& config, const std::string& key) {
  const Json* modules = config.find(key);
  if (modules == nullptr) return;
  if (!modules->is_array()) config.refuse(key, "expected a list, got " + shown(*modules));
  for (const Json& module : *modules) {
    const std::string name = module.is_string() ? module.get<std::string>() : "";
    if (!is_never_coded(name)) {
      config.refuse(key, shown(module) + " is left out of quantization; all projections or none can be quantized");
    }
  }
}

FolderFormat parse_bitsandbytes(const Section& config) {
  const bool in_8_bits = config.flag("load_in_8bit"), in_4_bits = config.flag("load_in_4bit");
  if (in_8_bits == in_4_bits) config.refuse("load_in_8bit", "expected it or load_in_4bit to be true, not both");
  check_left_out(config, "llm_int8_skip_modules");
  FolderFormat format;
  format.library = Library::kBitsAndBytes;
  if (in_8_bits) {
    if (config.flag("llm_int8_has_fp16_weight")) {
      config.refuse("llm_int8_has_fp16_weight", "true: the weights are stored in 16 bits");
    }
    format.scheme = Scheme::kInt8;
    return format;
  }
  config.expect("bnb_4bit_quant_type", "nf4");
  config.expect_if_there("bnb_4bit_quant_storage", "uint8");
  format.scheme = config.flag("bnb_4bit_use_double_quant") ? Scheme::kNf4DoubleQuant : Scheme::kNf4;
  return format;
}

// Scales that are found from the activations as they come are left out: activations are not rounded here.
void check_activations(const Section& group) {
  if (group.find("output_activations") != nullptr) group.refuse("output_activations", "is not supported");
  if (group.find("input_activations") != nullptr) group.section("input_activations").expect("dynamic", true);
}

Scheme parse_packed(const Section& weights) {
  weights.expect("num_bits", 4);
  weights.expect("type", "int");
  weights.expect("strategy", "group");
  const Json* size = weights.find("group_size");
  if (size == nullptr || !size->is_number_integer()) weights.refuse("group_size", "expected 128, 64, 32 or 16");
  const auto scheme = int4_of_group(size->get<int64_t>());
  if (!scheme) weights.refuse("group_size", "expected 128, 64, 32 or 16, got " + shown(*size));
  if (const Json* order = weights.find("actorder"); order != nullptr && *order != "weight" && *order != "static") {
    weights.refuse("actorder", shown(*order) + " is not supported");
  }
  return *scheme;
}

Scheme parse_in_8_bits(const Section& weights, bool floating) {
  weights.expect("num_bits", 8);
  weights.expect("type", floating ? "float" : "int");
  const std::string strategy = weights.text("strategy");
  if (strategy != "channel" && strategy != "tensor") {
    weights.refuse("strategy", "expected \"channel\" or \"tensor\", got \"" + strategy.substr(0, 80) + "\"");
  }
  return floating ? Scheme::kFp8 : Scheme::kInt8;
}

FolderFormat parse_compressed_tensors(const Section& config) {
  const std::string status = config.text("quantization_status");  // "frozen": of early versions, compressed as well
  if (status != "compressed" && status != "frozen") {
    config.refuse("quantization_status", "expected \"compressed\", got \"" + status.substr(0, 80) + "\"");
  }
  for (const char* key : {"kv_cache_scheme", "sparsity_config", "transform_config"}) {
    const Json* value = config.find(key);
    if (value != nullptr && !value->empty()) config.refuse(key, "is not supported");
  }
  check_left_out(config, "ignore");
  const Section groups = config.section("config_groups");
  if (groups.json().size() != 1) config.refuse("config_groups", "expected one group for all projections");
  const Section group = groups.section(groups.json().begin().key());
  group.expect("targets", Json::array({"Linear"}));
  check_activations(group);
  const Section weights = group.section("weights");
  weights.expect("symmetric", true);
  if (weights.find("dynamic") != nullptr) weights.expect("dynamic", false);
  FolderFormat format;
  format.library = Library::kCompressedTensors;
  const std::string name = config.text("format");
  if (name == "pack-quantized") {
    format.scheme = parse_packed(weights);
  } else if (name == "float-quantized" || name == "int-quantized") {
    format.scheme = parse_in_8_bits(weights, name == "float-quantized");
  } else {
    config.refuse("format", "expected \"pack-quantized\", \"float-quantized\" or \"int-quantized\", got \"" +
                                name.substr(0, 80) + "\"");
  }
  return format;
}

// transformers writes "modules_to_not_convert", vLLM's tools "ignored_layers".
FolderFormat parse_fp8(const Section& config) {
  config.expect_if_there("fmt", "e4m3");
  config.expect("weight_block_size", fp8_block());
  config.expect_if_there("activation_scheme", "dynamic");
  check_left_out(config, kLeftOut);
  check_left_out(config, kIgnored);
  return format_of(Scheme::kFp8Block128);
}

// Of which each module beside experts has one in its name.
constexpr std::array kBesideExperts{"self_attn", "router", "embed", "lm_head", "norm"};

// Where the list is null nothing but experts is quantized, as where it names all else.
FolderFormat parse_mxfp4(const Section& config) {
  if (const Json* modules = config.find(kLeftOut)) {
    if (!modules->is_array()) config.refuse(kLeftOut, "expected a list, got " + shown(*modules));
    for (const Json& module : *modules) {
      const std::string name = module.is_string() ? module.get<std::string>() : "";
      const bool is_of_others =
          std::ranges::any_of(kBesideExperts, [&](const char* other) { return name.find(other) != std::string::npos; });
      if (!is_of_others) {
        config.refuse(kLeftOut, shown(module) + " is left out of quantization; all experts or none can be quantized");
      }
    }
  }
  return format_of(Scheme::kMxfp4);
}

Json fp8_config() {
  return {{"activation_scheme", "dynamic"},
          {"fmt", "e4m3"},
          {kLeftOut, {"lm_head"}},
          {kMethod, kFp8},
          {"weight_block_size", fp8_block()}};
}

Json mxfp4_config() {
  return {{kMethod, kMxfp4},
          {kLeftOut, {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}};
}

Json bitsandbytes_config(Scheme scheme) {
  const bool in_8_bits = is_int8(scheme);
  return {{"_load_in_4bit", !in_8_bits},
          {"_load_in_8bit", in_8_bits},
          {"bnb_4bit_compute_dtype", "float32"},
          {"bnb_4bit_quant_storage", "uint8"},
          {"bnb_4bit_quant_type", in_8_bits ? "fp4" : "nf4"},
          {"bnb_4bit_use_double_quant", has_double_scales(scheme)},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", nullptr},
          {"llm_int8_threshold", 6.0},
          {"load_in_4bit", !in_8_bits},
          {"load_in_8bit", in_8_bits},
          {"quant_method", "bitsandbytes"}};
}

Json compressed_tensors_config(Scheme scheme) {
  const bool floating = is_fp8(scheme);
  const Json weights = {{"num_bits", floating ? 8 : 4},
                        {"type", floating ? "float" : "int"},
                        {"symmetric", true},
                        {"group_size", floating ? Json(nullptr) : Json(block_of(scheme))},
                        {"strategy", floating ? "channel" : "group"},
                        {"dynamic", false}};
  const Json group = {
      {"targets", {"Linear"}}, {"weights", weights}, {"input_activations", nullptr}, {"output_activations", nullptr}};
  return {{"config_groups", {{"group_0", group}}},
          {"format", floating ? "float-quantized" : "pack-quantized"},
          {"global_compression_ratio", nullptr},
          {"ignore", {"lm_head"}},
          {"kv_cache_scheme", nullptr},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"}};
}

bool has_method(const Json& quantization, const char* method) {
  return quantization.is_object() && quantization.contains(kMethod) && quantization[kMethod] == method;
}

}  // namespace

FolderFormat parse_quantization_config(const Json& quantization, std::string_view origin) {
  const Section config(quantization, origin, "quantization_config");
  const std::string method = config.text(kMethod);
  if (method == "bitsandbytes") return parse_bitsandbytes(config);
  if (method == "compressed-tensors") return parse_compressed_tensors(config);
  if (method == kFp8) return parse_fp8(config);
  if (method == kMxfp4) return parse_mxfp4(config);
  config.refuse(kMethod, "\"" + method.substr(0, 80) + "\" is not supported");
}

bool asks_for_mxfp4(const Json& quantization) { return has_method(quantization, kMxfp4); }
bool asks_for_fp8_blocks(const Json& quantization) { return has_method(quantization, kFp8); }

Json quantization_config(Scheme scheme) {
  switch (row_of(scheme).library) {
    case Library::kBitsAndBytes:
      return bitsandbytes_config(scheme);
    case Library::kCompressedTensors:
      return compressed_tensors_config(scheme);
    case Library::kBlockFp8:
      return fp8_config();
    case Library::kTransformers:
      break;
  }
  return mxfp4_config();
}

}  // namespace fathom::quant
