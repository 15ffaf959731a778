// Recognises what a path holds by the files that are there, and collects what they say.
#include "app/words/contents.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <tuple>

#include "arch/read_folder.h"
#include "arch/read_text_part.h"
#include "arch/storage_schemes.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/tokenizer.h"
#include "weights/folder.h"
#include "weights/hub.h"
#include "weights/manifest.h"

namespace fathom::app {
namespace {

namespace fs = std::filesystem;

void add_file(const fs::path& path, Contents& contents) {
  const weights::SafetensorsFile file(path);
  contents.tensors.insert(contents.tensors.end(), file.tensors().begin(), file.tensors().end());
}

void add_all_files(const fs::path& folder, Contents& contents) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) add_file(file, contents);
}

// What a fact of config.json is called there, and its value as it stands there.
void add_fact(const Json& object, const char* key, Contents& contents) {
  if (!object.contains(key) || object[key].is_null()) return;
  const Json& value = object[key];
  contents.facts.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
}

void add_text_part(const arch::Architecture& architecture, const weights::ModelFolder& model, Contents& contents) {
  if (!architecture.text_part) return;
  const arch::OtherTensors others = arch::other_tensors(architecture, model);
  contents.details["text_part"] = {{"whole", architecture.text_part->whole},
                                   {"family", architecture.family},
                                   {"others", others.names.size()},
                                   {"others_bytes", others.bytes}};
  contents.facts.emplace_back(
      "holds", "a " + architecture.text_part->whole + ", of which the text part is used, a " + architecture.family);
  if (others.names.empty()) return;
  contents.facts.emplace_back("left as they are",
                              format_count(std::ssize(others.names)) + " other tensors, " + format_bytes(others.bytes));
}

// model: null for a phantom's run, whose weights are nobody's.
void add_shape(Json config, const fs::path& folder, const weights::ModelFolder* model, Contents& contents) {
  contents.details["config"] = config;
  const std::string origin = (folder / "config.json").string();
  for (const char* key :
       {"model_type", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "sliding_window", "max_position_embeddings", "tie_word_embeddings"}) {
    add_fact(arch::text_config_of(config), key, contents);
  }
  try {
    const arch::Architecture architecture =
        model != nullptr ? arch::read_architecture(*model) : arch::parse_architecture(config, origin);
    if (model != nullptr) add_text_part(architecture, *model, contents);
    const int64_t parameters = arch::parameter_count(architecture);
    contents.details["parameters"] = parameters;
    contents.facts.emplace_back("parameters", format_count(parameters));
    if (architecture.experts() != nullptr) {
      const int64_t active = arch::active_parameter_count(architecture);
      contents.details["active_parameters"] = active;
      contents.facts.emplace_back("of these active for a token", format_count(active));
    }
    contents.facts.emplace_back("stored as", std::string(dtype_name(architecture.dtype)));
    if (architecture.quantized) {
      const std::string scheme(quant::name_of(architecture.quantized->scheme));
      contents.facts.emplace_back(std::string(arch::coded_parts(architecture.quantized->scheme)) + " in", scheme);
      contents.details["quantized"] = scheme;
    }
    contents.facts.emplace_back("weights in float32",
                                format_bytes(checked_multiply(parameters, 4, "the model's size")));
    contents.facts.emplace_back("weights in 16 bits",
                                format_bytes(checked_multiply(parameters, 2, "the model's size")));
  } catch (const Error& error) {
    contents.details["not_supported"] = error.what();
    contents.facts.emplace_back("not for training", error.what());
  }
}

void add_tokenizer(const fs::path& folder, Contents& contents) {
  using tokenizer::Tokenizer;
  const auto refuse = [&](const std::string& reason) {
    contents.details["tokenizer"] = {{"not_supported", reason}};
    contents.facts.emplace_back("tokenizer not read", reason);
  };
  if (!Tokenizer::is_in(folder)) {
    if (const auto other = Tokenizer::other_kind_in(folder)) refuse(*other);
    return;
  }
  try {
    const std::string file(Tokenizer::file_of(Tokenizer::source_in(folder)));
    const int64_t tokens = Tokenizer::open(folder)->vocabulary_size();
    contents.details["tokenizer"] = {{"file", file}, {"tokens", tokens}};
    contents.facts.emplace_back("tokenizer", file + ", " + format_count(tokens) + " tokens");
  } catch (const Error& error) {
    refuse(error.what());
  }
}

void read_model(const fs::path& folder, Contents& contents) {
  contents.kind = "model";
  if (weights::is_phantom(folder)) {
    contents.kind = "phantom's run";
    contents.facts.emplace_back("phantom", "played on a phantom GPU: no weight in this folder is real");
    contents.details["phantom"] = true;
    add_shape(read_json(folder / "config.json"), folder, nullptr, contents);
    add_all_files(folder, contents);
    return;
  }
  const weights::ModelFolder model(folder, /*weights_required=*/false);
  add_shape(model.config(), folder, &model, contents);
  add_tokenizer(folder, contents);
  for (const std::string& name : model.names()) contents.tensors.push_back(*model.find(name)->info);
  if (!model.has_weights()) contents.facts.emplace_back("weights", "none: config.json alone");
}

void read_adapter(const fs::path& folder, Contents& contents) {
  contents.kind = "adapter";
  const Json config = read_json(folder / "adapter_config.json");
  contents.details["config"] = config;
  for (const char* key :
       {"peft_type", "base_model_name_or_path", "r", "lora_alpha", "lora_dropout", "target_modules"}) {
    if (config.is_object()) add_fact(config, key, contents);
  }
  add_all_files(folder, contents);
}

void read_checkpoint(const fs::path& folder, Contents& contents) {
  contents.kind = "checkpoint";
  const weights::Manifest manifest = weights::read_and_verify_manifest(folder);
  contents.facts.emplace_back("step", std::to_string(manifest.step));
  contents.details["step"] = manifest.step;
  contents.details["files"] = Json::array();
  for (const weights::FileRecord& file : manifest.files) {
    contents.facts.emplace_back(file.name, format_bytes(file.bytes) + ", as written (" + file.hash + ")");
    contents.details["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"hash", file.hash}});
  }
  add_all_files(folder, contents);
}

// "model.layers.12.x" -> "model.layers.*.x".
std::string without_numbers(const std::string& name) {
  std::string result;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const bool number =
        end > at && std::all_of(name.begin() + static_cast<ptrdiff_t>(at), name.begin() + static_cast<ptrdiff_t>(end),
                                [](unsigned char c) { return std::isdigit(c) != 0; });
    result += number ? "*" : name.substr(at, end - at);
    if (end < name.size()) result += '.';
    at = end + 1;
  }
  return result;
}

}  // namespace

Contents read_contents(const fs::path& subject) {
  Contents contents;
  if (fs::exists(subject) && !fs::is_directory(subject)) {
    contents.kind = "safetensors file";
    const weights::SafetensorsFile file(subject);
    contents.tensors = file.tensors();
    contents.details["metadata"] = Json::object();
    for (const auto& [key, value] : file.metadata()) {
      contents.facts.emplace_back(key, value);
      contents.details["metadata"][key] = value;
    }
  } else if (!fs::exists(subject) && weights::is_hub_name(subject.string())) {
    return read_contents(weights::find_model(subject));
  } else if (!fs::exists(subject)) {
    throw Error("'" + subject.string() + "' does not exist", "check the path");
  } else if (fs::exists(subject / "manifest.json")) {
    read_checkpoint(subject, contents);
  } else if (fs::exists(subject / "adapter_config.json")) {
    read_adapter(subject, contents);
  } else if (fs::exists(subject / "config.json")) {
    read_model(subject, contents);
  } else {
    throw Error("'" + subject.string() + "' holds no config.json, adapter_config.json or manifest.json",
                "name a model folder, an adapter, a checkpoint or a safetensors file");
  }
  return contents;
}

std::vector<TensorGroup> group_tensors(const std::vector<weights::TensorInfo>& tensors) {
  std::vector<TensorGroup> groups;
  std::map<std::tuple<std::string, DType, std::vector<int64_t>>, size_t> known;
  for (const weights::TensorInfo& tensor : tensors) {
    const std::string name = without_numbers(tensor.name);
    const auto [found, is_new] = known.try_emplace({name, tensor.dtype, tensor.shape}, groups.size());
    if (is_new) groups.push_back({name, tensor.dtype, tensor.shape});
    TensorGroup& group = groups[found->second];
    if (group.count == 0) group.name = tensor.name;
    if (++group.count > 1) group.name = name;
    group.elements += tensor.bytes / size_of(tensor.dtype);
    group.bytes += tensor.bytes;
  }
  return groups;
}

}  // namespace fathom::app
