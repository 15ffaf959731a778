// Writes Hugging Face's files around the weights of a run.
#include "checkpoint/model_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "ops/scalar_type.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTokenizerFiles[] = {"tokenizer.model",   "tokenizer.json",          "tokenizer_config.json",
                                           "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"};

// The source's config with the dtype that the weights have now, under the key that it used for it.
Json model_config(const ModelFiles& files, const NamedTensors& parameters) {
  Json config = read_json(files.source / "config.json");
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  if (!parameters.empty()) config[key] = dtype_name(ops::dtype_of(parameters.front().second.scalar_type()));
  return config;
}

// What PEFT needs to rebuild the adapter, in its spelling (peft/tuners/lora/config.py); all else is its default.
Json adapter_config(const ModelFiles& files) {
  const model::LoraOptions& lora = *files.lora;
  std::vector<std::string> targets = lora.target_modules;
  if (targets.empty()) targets = {"q_proj", "v_proj"};
  if (targets == std::vector<std::string>{"all-linear"}) {
    targets = {"down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"};
  }
  return {{"base_model_name_or_path", fs::weakly_canonical(fs::absolute(files.source)).string()},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", lora.alpha},
          {"lora_dropout", lora.dropout},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", lora.r},
          {"rank_pattern", Json::object()},
          {"alpha_pattern", Json::object()},
          {"target_modules", targets},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", false}};
}

}  // namespace

std::string weights_file_name(const ModelFiles& files) {
  return files.lora ? "adapter_model.safetensors" : "model.safetensors";
}

std::string weights_prefix(const ModelFiles& files) { return files.lora ? "base_model.model." : ""; }

std::vector<FileRecord> write_model_files(const fs::path& folder, const NamedTensors& parameters,
                                          const ModelFiles& files) {
  std::vector<FileRecord> written;
  if (files.lora) {
    written.push_back(write_synced(folder, "adapter_config.json", format_json(adapter_config(files))));
  } else {
    written.push_back(write_synced(folder, "config.json", format_json(model_config(files, parameters))));
    const fs::path generation = files.source / "generation_config.json";
    if (fs::exists(generation)) {
      written.push_back(write_synced(folder, "generation_config.json", read_file(generation)));
    }
  }
  for (const char* name : kTokenizerFiles) {
    if (fs::exists(files.source / name)) written.push_back(write_synced(folder, name, read_file(files.source / name)));
  }
  FileRecord weights;
  weights.name = weights_file_name(files);
  weights.hash = weights::write_safetensors(folder / weights.name, tensor_sources(parameters, weights_prefix(files)));
  weights.bytes = static_cast<int64_t>(fs::file_size(folder / weights.name));
  written.push_back(std::move(weights));
  return written;
}

void write_model(const fs::path& output_dir, const NamedTensors& parameters, const ModelFiles& files) {
  const fs::path staging = output_dir / ".model.partial";
  fs::remove_all(staging);
  fs::create_directories(staging);
  try {
    const std::vector<FileRecord> written = write_model_files(staging, parameters, files);
    sync_path(staging);
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
