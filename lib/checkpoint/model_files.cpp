// Writes Hugging Face's files around the weights of a run.
#include "checkpoint/model_files.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "arch/adapter_targets.h"
#include "arch/parameter_table.h"
#include "arch/read_folder.h"
#include "arch/read_text_part.h"
#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "base/lost_others.h"
#include "base/system_error.h"
#include "checkpoint/stored_names.h"
#include "config/target_pattern.h"
#include "ops/scalar_type.h"
#include "weights/companion.h"
#include "weights/folder.h"
#include "weights/hub.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {
namespace {

namespace fs = std::filesystem;

struct FileText {
  std::string name, text;
};

const at::Tensor* find_named(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [each, tensor] : tensors) {
    if (each == name) return &tensor;
  }
  return nullptr;
}

// The source's files that go along as they are.
std::vector<std::string> copied_files(const ModelFiles& files) {
  std::vector<std::string> copied = tokenizer_files(files.source);
  constexpr char kGeneration[] = "generation_config.json";
  if (!files.lora && fs::exists(files.source / kGeneration)) copied.emplace_back(kGeneration);
  return copied;
}

const at::Tensor* find_embedding(const NamedTensors& tensors) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [](const auto& each) { return arch::is_stored_embedding(each.first); });
  return found == tensors.end() ? nullptr : &found->second;
}

arch::Architecture architecture_of(const ModelFiles& files) {
  return arch::read_architecture(weights::ModelFolder(files.source, /*weights_required=*/false));
}

// PEFT trains an embedding apart from the head that is tied to it, unless it is told not to.
bool holds_tied_embedding(const NamedTensors& parameters, const ModelFiles& files) {
  return files.lora && find_embedding(parameters) != nullptr && architecture_of(files).tie_word_embeddings;
}

// PEFT wraps each module for itself: T5's embedding has to be there under the names that its stacks read it by, as
// `shared` alone would change nothing. With a head that is tied to it PEFT ties these as well.
constexpr const char* kOfStacks[] = {"encoder.embed_tokens", "decoder.embed_tokens"};
bool repeats_embedding(const NamedTensors& parameters, const ModelFiles& files) {
  return files.lora && find_named(parameters, "shared.weight") != nullptr && !holds_tied_embedding(parameters, files);
}

// The last parts of the names of modules that have an adapter: "q_proj".
std::vector<std::string> adapted_names(const NamedTensors& parameters) {
  constexpr std::string_view kA = ".lora_A.weight";
  std::set<std::string> names;
  for (const auto& [name, tensor] : parameters) {
    if (!name.ends_with(kA)) continue;
    const std::string module = name.substr(0, name.size() - kA.size());
    names.insert(module.substr(module.rfind('.') + 1));
  }
  return {names.begin(), names.end()};
}

// In the place of names in target_modules that mean experts or a router, PEFT writes down what they are now.
struct SavedTargets {
  std::vector<std::string> modules, parameters;
  Json rank_pattern = Json::object(), alpha_pattern = Json::object();
};

SavedTargets saved_targets(const NamedTensors& parameters, const arch::LoraOptions& lora,
                           const arch::Architecture& architecture) {
  SavedTargets saved{lora.target_modules, lora.target_parameters};
  const bool all = lora.target_modules == std::vector<std::string>{std::string(config::kAllLinear)};
  if (architecture.experts() == nullptr) {
    if (saved.modules.empty() || all) saved.modules = adapted_names(parameters);
    return saved;
  }
  const arch::AdapterTargets targets = arch::adapter_targets(architecture, lora);
  if (targets.modules == std::vector<std::string>{"all-linear"}) {
    saved.modules.clear();
    for (const std::string& name : adapted_names(parameters)) {
      if (name != "experts" && name != "base_layer" && name != "gate" && name != "router")
        saved.modules.push_back(name);
    }
  } else {
    saved.modules = targets.modules;
    if (saved.modules.empty() && targets.parameters.empty()) saved.modules = adapted_names(parameters);
  }
  saved.parameters.clear();
  for (const auto& [name, times] : targets.parameters) {
    saved.parameters.push_back(name);
    if (times == 1) continue;
    saved.rank_pattern[arch::kFusedPattern] = times * lora.r;
    saved.alpha_pattern[arch::kFusedPattern] = static_cast<double>(times) * lora.alpha;
  }
  return saved;
}

// What PEFT needs to rebuild the adapter, in its spelling (peft/tuners/lora/config.py); all else is its default.
Json adapter_config(const NamedTensors& parameters, const ModelFiles& files) {
  const arch::LoraOptions& lora = *files.lora;
  const arch::Architecture architecture = architecture_of(files);
  const SavedTargets targets = saved_targets(parameters, lora, architecture);
  const std::optional<std::string> pattern = config::pattern_of(targets.modules);
  std::vector<std::string> saved = lora.modules_to_save;
  if (repeats_embedding(parameters, files)) saved.insert(saved.end(), std::begin(kOfStacks), std::end(kOfStacks));
  Json config = {
      {"base_model_name_or_path", weights::lasting_name(files.base.empty() ? files.source : fs::path(files.base))},
      {"bias", "none"},
      {"ensure_weight_tying", holds_tied_embedding(parameters, files)},
      {"fan_in_fan_out", arch::stores_transposed(architecture)},
      {"inference_mode", true},
      {"init_lora_weights", true},
      {"lora_alpha", lora.alpha},
      {"lora_dropout", lora.dropout},
      {"modules_to_save", saved.empty() ? Json() : Json(saved)},
      {"peft_type", "LORA"},
      {"r", lora.r},
      {"rank_pattern", targets.rank_pattern},
      {"alpha_pattern", targets.alpha_pattern},
      {"target_modules", pattern ? Json(*pattern) : Json(targets.modules)},
      {"task_type", architecture.encoder ? "SEQ_2_SEQ_LM" : "CAUSAL_LM"},
      {"use_dora", false},
      {"use_rslora", lora.rank_stabilised}};
  if (!targets.parameters.empty()) config["target_parameters"] = targets.parameters;
  if (files.text_part) config["exclude_modules"] = arch::pattern_of_other_parts();
  return config;
}

// Of what describes the weights.
std::string description_name(const ModelFiles& files) { return files.lora ? "adapter_config.json" : "config.json"; }

FileText description_of(const NamedTensors& parameters, const ModelFiles& files) {
  if (files.lora) return {description_name(files), format_json(adapter_config(parameters, files))};
  Json config = read_json(files.source / "config.json");
  if (!parameters.empty()) {
    const at::Tensor* embedding = find_embedding(parameters);
    const auto rows = embedding == nullptr ? std::nullopt : std::optional(embedding->size(0));  // with added tokens
    config = config_as_stored(std::move(config), ops::dtype_of(parameters.front().second.scalar_type()), rows);
  }
  return {description_name(files), format_json(config)};
}

// An adapter is named after transformers' model of all parts, the weights as their folder has them.
// gives_others: of several processes one gives what all have.
std::vector<weights::TensorSource> stored_tensors(const NamedTensors& parameters, const ModelFiles& files,
                                                  bool gives_others = true) {
  NamedTensors stored = files.lora ? parameters : as_stored(parameters, files.source, files.text_part);
  if (holds_tied_embedding(parameters, files)) stored.emplace_back(kHead, *find_embedding(parameters));
  if (repeats_embedding(parameters, files)) {
    for (const std::string name : kOfStacks) stored.emplace_back(name + ".weight", *find_embedding(parameters));
  }
  if (files.lora) {
    for (auto& [name, tensor] : stored) name = arch::name_in_whole(files.text_part, name);
    return tensor_sources(stored, weights_prefix(files));
  }
  std::vector<weights::TensorSource> sources = tensor_sources(stored);
  for (const weights::TensorSource& other : files.others) {
    sources.push_back(other);
    if (!gives_others) sources.back().parts = [](const weights::TensorSource::Sink&) {};
  }
  return sources;
}

}  // namespace

std::vector<std::string> tokenizer_files(const fs::path& folder) {
  constexpr char kTemplates[] = "additional_chat_templates";
  std::vector<std::string> names;
  for (const char* name :
       {"tokenizer.model", "spiece.model", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
        "added_tokens.json", "special_tokens_map.json", "chat_template.jinja", "chat_template.json",
        "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"}) {
    if (fs::exists(folder / name)) names.emplace_back(name);
  }
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder / kTemplates, absent)) {
    const fs::path& path = entry.path();
    if (path.extension() == ".jinja" && entry.is_regular_file()) names.push_back(kTemplates / path.filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Json config_as_stored(Json config, DType dtype, std::optional<int64_t> vocabulary) {
  const char* key = config.contains("torch_dtype") && !config.contains("dtype") ? "torch_dtype" : "dtype";
  config[key] = dtype_name(dtype);
  Json& text = arch::text_config_of(config);
  for (const char* its : {"torch_dtype", "dtype"}) {
    if (text.contains(its)) text[its] = dtype_name(dtype);
  }
  if (vocabulary) text["vocab_size"] = *vocabulary;
  return config;
}

ModelFiles files_of(const weights::ModelFolder& folder, const model::Decoder& model, const std::string& base) {
  const arch::Architecture& architecture = model.architecture();
  ModelFiles files{folder.path(), model.options().parameters.lora, base, architecture.text_part};
  if (files.lora) return files;
  for (const std::string& name : arch::other_tensors(architecture, folder).names) {
    files.others.push_back(weights::copy_of(*folder.find(name)));
  }
  return files;
}

std::string weights_file_name(const ModelFiles& files) {
  return files.lora ? "adapter_model.safetensors" : "model.safetensors";
}

std::string name_in_adapter(const weights::SafetensorsFile& adapter, const std::string& name) {
  return kAdapterPrefix +
         arch::found_name(name, [&](const auto& each) { return adapter.find(kAdapterPrefix + each) != nullptr; });
}

std::string weights_prefix(const ModelFiles& files) { return files.lora ? kAdapterPrefix : ""; }

NamedTensors with_repeated_embedding(NamedTensors parameters, const weights::SafetensorsFile& adapter) {
  if (find_embedding(parameters) == nullptr) return parameters;
  const at::Tensor embedding = *find_embedding(parameters);
  std::vector<std::string> names = {kHead};
  for (const std::string module : kOfStacks) names.push_back(module + ".weight");
  for (const std::string& name : names) {
    const bool repeated = adapter.find(kAdapterPrefix + name) != nullptr && find_named(parameters, name) == nullptr;
    if (repeated) parameters.emplace_back(name, embedding);
  }
  return parameters;
}

void require_places(const fs::path& output_dir, const ModelFiles& files) {
  std::vector<std::string> names = copied_files(files);
  names.insert(names.end(), {description_name(files), weights_file_name(files)});
  const auto refuse = [](const fs::path& path, const char* what) {
    throw Error("'" + path.string() + "' is " + what, "remove it, or choose another output_dir");
  };
  std::error_code absent;
  for (const std::string& name : names) {
    const fs::path target = output_dir / name, parent = target.parent_path();
    if (parent != output_dir && fs::is_symlink(parent, absent)) refuse(parent, "a link, not a folder");
    if (parent != output_dir && fs::exists(parent, absent) && !fs::is_directory(parent, absent)) {
      refuse(parent, "not a folder");
    }
    if (fs::symlink_status(target, absent).type() == fs::file_type::directory) refuse(target, "a folder, not a file");
  }
}

std::vector<weights::FileRecord> write_model_files(const fs::path& folder, const NamedTensors& parameters,
                                                   const ModelFiles& files, weights::Writers* writers,
                                                   std::string* failure) {
  std::vector<weights::FileRecord> written;
  const auto write_beside = [&](const std::string& name, const std::function<std::string()>& text) {
    try {
      written.push_back(weights::write_new(folder, name, text()));
    } catch (const std::exception& error) {
      if (failure == nullptr) throw;
      if (failure->empty()) *failure = message_of(error);
    }
  };
  weights::write_in_step(writers, [&] {
    if (writers != nullptr && !writers->is_first()) return;
    write_beside(description_name(files), [&] { return description_of(parameters, files).text; });
    for (const std::string& name : copied_files(files)) {
      write_beside(name, [&] { return weights::read_companion(files.source, name); });
    }
  });
  const bool is_first = writers == nullptr || writers->is_first();
  written.push_back(write_tensors(folder / weights_file_name(files), stored_tensors(parameters, files, is_first),
                                  weights::Numbers::kFinite, writers));
  return written;
}

weights::FileRecord write_tensors(const fs::path& path, const std::vector<weights::TensorSource>& tensors,
                                  weights::Numbers numbers, weights::Writers* writers) {
  if (writers != nullptr) return weights::write_together(path, tensors, numbers, *writers);
  weights::FileRecord record{path.filename().string(), 0, weights::write_safetensors(path, tensors, numbers)};
  record.bytes = static_cast<int64_t>(fs::file_size(path));
  return record;
}

int64_t model_bytes(const NamedTensors& parameters, const ModelFiles& files) {
  int64_t bytes = std::ssize(description_of(parameters, files).text);
  for (const std::string& name : copied_files(files)) bytes += weights::companion_bytes(files.source, name);
  return checked_add(bytes, weights::safetensors_bytes(stored_tensors(parameters, files)), "size of the model");
}

void write_model(const fs::path& output_dir, const NamedTensors& parameters, const ModelFiles& files,
                 weights::Writers* writers) {
  const fs::path staging = output_dir / kModelStaging;
  const bool is_first = writers == nullptr || writers->is_first();
  weights::write_in_step(writers, [&] {
    if (!is_first) return;
    create_folders(output_dir, "choose another output_dir");  // where it is gone
    require_places(output_dir, files);
    fs::remove_all(staging);
    fs::create_directory(staging);
  });
  try {
    std::string failure;
    const std::vector<weights::FileRecord> written = write_model_files(staging, parameters, files, writers, &failure);
    weights::write_in_step(writers, [&] {
      if (!is_first) return;
      weights::sync_files(staging, written);
      for (const weights::FileRecord& file : written) {
        const fs::path target = output_dir / file.name;
        fs::create_directories(target.parent_path());
        fs::rename(staging / file.name, target);
      }
      weights::sync_files(output_dir, written);
      fs::remove_all(staging);
      if (!failure.empty()) throw Error(weights_file_name(files) + " is there, but not all beside it: " + failure);
    });
  } catch (const LostOthers&) {  // who may be writing there still, and are to hear of the failure, not of a folder gone
    throw;
  } catch (...) {
    std::error_code ignored;
    if (is_first) fs::remove_all(staging, ignored);
    throw;
  }
}

}  // namespace fathom::checkpoint
