// Writes Hugging Face's files around the weights of a run.
#include "checkpoint/model_files.h"

#include <ATen/core/Tensor.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "ops/scalar_type.h"
#include "weights/hub.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

const at::Tensor* find_named(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [each, tensor] : tensors) {
    if (each == name) return &tensor;
  }
  return nullptr;
}

// The source's files that go along as they are.
std::vector<fs::path> copied_files(const ModelFiles& files) {
  std::vector<fs::path> copied;
  const auto add = [&](const std::string& name) {
    if (fs::exists(files.source / name)) copied.push_back(files.source / name);
  };
  if (!files.lora) add("generation_config.json");
  for (const std::string& name : tokenizer_files()) add(name);
  return copied;
}

constexpr char kAdapterPrefix[] = "base_model.model.";
constexpr char kEmbedding[] = "model.embed_tokens.weight", kHead[] = "lm_head.weight";

// PEFT trains an embedding apart from the head that is tied to it, unless it is told not to.
bool holds_tied_embedding(const NamedTensors& parameters, const ModelFiles& files) {
  if (!files.lora || find_named(parameters, kEmbedding) == nullptr) return false;
  const Json config = read_json(files.source / "config.json");
  return config.contains("tie_word_embeddings") && config.at("tie_word_embeddings") == true;
}

// What PEFT needs to rebuild the adapter, in its spelling (peft/tuners/lora/config.py); all else is its default.
Json adapter_config(const NamedTensors& parameters, const ModelFiles& files) {
  const model::LoraOptions& lora = *files.lora;
  std::vector<std::string> targets = lora.target_modules;
  if (targets.empty()) targets = {"q_proj", "v_proj"};
  if (targets == std::vector<std::string>{"all-linear"}) {
    targets = {"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  }
  const Json saved = lora.modules_to_save.empty() ? Json() : Json(lora.modules_to_save);
  return {{"base_model_name_or_path", weights::lasting_name(files.base.empty() ? files.source : fs::path(files.base))},
          {"bias", "none"},
          {"ensure_weight_tying", holds_tied_embedding(parameters, files)},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", lora.alpha},
          {"lora_dropout", lora.dropout},
          {"modules_to_save", saved},
          {"peft_type", "LORA"},
          {"r", lora.r},
          {"rank_pattern", Json::object()},
          {"alpha_pattern", Json::object()},
          {"target_modules", targets},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", lora.rank_stabilised}};
}

}  // namespace

const std::vector<std::string>& tokenizer_files() {
  static const std::vector<std::string> names = {
      "tokenizer.model",   "tokenizer.json",          "tokenizer_config.json", "vocab.json",        "merges.txt",
      "added_tokens.json", "special_tokens_map.json", "chat_template.jinja",   "chat_template.json"};
  return names;
}

Json config_as_stored(Json config, DType dtype) {
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = dtype_name(dtype);
  return config;
}

std::string weights_file_name(const ModelFiles& files) {
  return files.lora ? "adapter_model.safetensors" : "model.safetensors";
}

std::string weights_prefix(const ModelFiles& files) { return files.lora ? kAdapterPrefix : ""; }

NamedTensors with_tied_head(NamedTensors parameters, const weights::SafetensorsFile& adapter) {
  const at::Tensor* embedding = find_named(parameters, kEmbedding);
  const bool twice = adapter.find(kAdapterPrefix + std::string(kHead)) != nullptr;
  if (twice && embedding != nullptr && find_named(parameters, kHead) == nullptr)
    parameters.emplace_back(kHead, *embedding);
  return parameters;
}

int64_t copied_bytes(const ModelFiles& files) {
  int64_t bytes = 0;
  for (const fs::path& file : copied_files(files)) bytes += static_cast<int64_t>(fs::file_size(file));
  return bytes;
}

std::vector<FileRecord> write_model_files(const fs::path& folder, const NamedTensors& parameters,
                                          const ModelFiles& files) {
  std::vector<FileRecord> written;
  if (files.lora) {
    written.push_back(write_new(folder, "adapter_config.json", format_json(adapter_config(parameters, files))));
  } else {
    Json config = read_json(files.source / "config.json");
    if (!parameters.empty()) {
      config = config_as_stored(std::move(config), ops::dtype_of(parameters.front().second.scalar_type()));
    }
    for (const auto& [name, tensor] : parameters) {
      if (name == "model.embed_tokens.weight") config["vocab_size"] = tensor.size(0);  // with tokens that were added
    }
    written.push_back(write_new(folder, "config.json", format_json(config)));
  }
  for (const fs::path& file : copied_files(files)) {
    written.push_back(write_new(folder, file.filename().string(), read_file(file)));
  }
  FileRecord weights;
  weights.name = weights_file_name(files);
  NamedTensors stored = parameters;
  if (holds_tied_embedding(parameters, files)) stored.emplace_back(kHead, *find_named(parameters, kEmbedding));
  weights.hash = weights::write_safetensors(folder / weights.name, tensor_sources(stored, weights_prefix(files)));
  weights.bytes = static_cast<int64_t>(fs::file_size(folder / weights.name));
  written.push_back(std::move(weights));
  return written;
}

void write_model(const fs::path& output_dir, const NamedTensors& parameters, const ModelFiles& files) {
  const fs::path staging = output_dir / kModelStaging;
  fs::remove_all(staging);
  fs::create_directories(staging);
  try {
    const std::vector<FileRecord> written = write_model_files(staging, parameters, files);
    sync_files(staging, written);
    for (const FileRecord& file : written) fs::rename(staging / file.name, output_dir / file.name);
    sync_path(output_dir);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
    throw;
  }
  fs::remove_all(staging);
}

}  // namespace fathom::checkpoint
