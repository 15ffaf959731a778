// Reads adapter_config.json and adapter_model.safetensors.
#include "checkpoint/adapter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "arch/adapter_targets.h"
#include "arch/parameter_table.h"
#include "arch/text_part.h"
#include "base/error.h"
#include "base/json_reason.h"
#include "base/json_value.h"
#include "base/log.h"
#include "base/path.h"
#include "checkpoint/model_files.h"
#include "config/keys.h"
#include "config/target_pattern.h"
#include "model/stored_parameters.h"
#include "ops/scalar_type.h"
#include "weights/folder.h"
#include "weights/hub.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {
namespace {

// A key that is absent, or has one of the values under which PEFT computes what our adapters do.
void expect(const Json& config, const std::string& origin, const char* key, const std::vector<Json>& known) {
  if (!config.contains(key)) return;
  for (const Json& value : known) {
    if (config.at(key) == value) return;
  }
  throw Error(origin + ": " + key + " is " + config.at(key).dump() + ", which this version cannot compute",
              "use an adapter with " + std::string(key) + " " + known.front().dump());
}

constexpr const char* kTyingKey = "ensure_weight_tying";
const ModelFiles kAdapterFiles{{}, arch::LoraOptions{}};

weights::SafetensorsFile open_weights(const std::filesystem::path& folder) {
  return weights::SafetensorsFile(folder / weights_file_name(kAdapterFiles));
}

[[noreturn]] void refuse_missing(const std::string& origin, const std::string& parameter, const std::string& remedy) {
  if (!arch::is_name_of_step_sizes(parameter)) throw Error(origin + ": holds no tensor for " + parameter, remedy);
  throw Error(origin + ": holds no steps of quantization-aware training (" + parameter + "), which qat asks for",
              "leave qat as it was when the adapter was trained, or train a new one");
}

// T5's embedding under the name that one of its stacks reads it by. Throws Error where it was trained apart.
bool is_embedding_again(const weights::SafetensorsFile& file, const weights::TensorInfo& info) {
  const std::string prefix = weights_prefix(kAdapterFiles);
  const weights::TensorInfo* shared = file.find(prefix + "shared.weight");
  if (shared == nullptr || !model::is_embedding_again(info.name.substr(std::min(info.name.size(), prefix.size())))) {
    return false;
  }
  if (info.dtype == shared->dtype && info.shape == shared->shape &&
      std::memcmp(file.data(info), file.data(*shared), static_cast<size_t>(info.bytes)) == 0) {
    return true;
  }
  throw Error(file.path().string() + ": '" + info.name + "' differs from '" + shared->name +
                  "', and one embedding is read for both",
              "train the adapter with fathom, or without the embedding");
}

// Throws Error unless the file holds what the model trains, and nothing else.
void require_tensors(const weights::SafetensorsFile& file, const model::Decoder& model) {
  const std::string origin = file.path().string();
  const std::string remedy = "use the adapter on the model and modules it was made for";
  std::set<std::string> known;
  if (model.architecture().tie_word_embeddings)
    known.insert(name_in_adapter(file, kHead));  // PEFT writes the matrix twice
  for (const model::Parameter& parameter : model.trained_parameters()) {
    const weights::TensorInfo* info = file.find(name_in_adapter(file, parameter.name));
    if (info == nullptr) refuse_missing(origin, parameter.name, remedy);
    known.insert(info->name);
    const std::string name = origin + ": '" + info->name + "'";
    if (parameter.tensor.sizes() != at::IntArrayRef(info->shape)) {
      throw Error(name + " is " + c10::str(at::IntArrayRef(info->shape)) + ", but on this model it would be " +
                      c10::str(parameter.tensor.sizes()) + ": the adapter was made for another",
                  remedy);
    }
    if (!is_floating(info->dtype) || size_of(info->dtype) < 2) {
      throw Error(name + " is stored as " + std::string(dtype_name(info->dtype)) + "; expected FP32, BF16 or FP16",
                  "save the adapter in one of these");
    }
  }
  for (const weights::TensorInfo& info : file.tensors()) {
    if (is_embedding_again(file, info)) continue;
    if (!known.contains(info.name) && arch::is_name_of_step_sizes(info.name)) {
      throw Error(origin + ": '" + info.name + "' holds steps of quantization-aware training, which these weights need",
                  "set qat to the type in its name, or name what `fathom export --merge` makes of the folder");
    }
    if (!known.contains(info.name)) throw Error(origin + ": '" + info.name + "' has no place in the model", remedy);
  }
}

// Whether gate and up projections of experts, one matrix now, have the rank of both, as PEFT converts them.
bool has_fused_rank(const Json& adapter) {
  const auto is_double = [&](const char* pattern, const char* key) {
    const Json found = adapter.value(pattern, Json());
    return found.is_object() && found.size() == 1 && found.contains(arch::kFusedPattern) &&
           found.at(arch::kFusedPattern).get<double>() == 2 * adapter.at(key).get<double>();
  };
  return is_double("rank_pattern", "r") && is_double("alpha_pattern", "lora_alpha");
}

// Such a matrix is told by the names of the two projections.
void read_target_parameters(const Json& adapter, bool fused, config::RunConfig& config) {
  const Json names = adapter.value("target_parameters", Json());
  config.target_parameters = names.is_null() ? std::vector<std::string>() : names.get<std::vector<std::string>>();
  if (!fused || std::erase(config.target_parameters, "gate_up_proj") == 0) return;
  config.target_modules.insert(config.target_modules.end(), {"gate_proj", "up_proj"});
}

// What the model has with an adapter whose settings are these.
arch::ParameterTable table_of(const std::filesystem::path& folder, const config::RunConfig& settings,
                              const arch::Architecture& architecture) try {
  return arch::resolve(settings, architecture).parameters;
} catch (const UsageError& error) {
  throw UsageError((folder / "adapter_config.json").string() + ": " + error.what());
}

}  // namespace

config::RunConfig with_adapter(config::RunConfig config, const std::filesystem::path& folder) try {
  weights::refuse_phantom(folder);
  const std::string origin = (folder / "adapter_config.json").string();
  if (!std::filesystem::exists(origin) && std::filesystem::exists(folder / "config.json")) {
    throw UsageError(folder.string() + " holds a whole model, not an adapter",
                     "name it as the model, or an adapter's folder in its place");
  }
  const Json adapter = read_json(origin);
  expect(adapter, origin, "peft_type", {"LORA"});
  expect(adapter, origin, "bias", {"none"});
  expect(adapter, origin, "fan_in_fan_out", {true, false});  // PEFT goes by the module it finds
  for (const char* key : {"use_dora", "use_qalora"}) expect(adapter, origin, key, {false, nullptr});
  for (const char* key : {"alora_invocation_tokens", "trainable_token_indices", "layer_replication"})
    expect(adapter, origin, key, {nullptr});
  // Others change the base's weights when PEFT loads the adapter.
  expect(adapter, origin, "init_lora_weights", {true, false, nullptr, "gaussian", "eva", "orthogonal"});
  const bool fused = has_fused_rank(adapter);
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    if (!fused) expect(adapter, origin, key, {Json::object(), nullptr});
  }
  for (const char* key : {"layers_to_transform", "layers_pattern"}) expect(adapter, origin, key, {nullptr});
  expect(adapter, origin, "exclude_modules", {nullptr, arch::pattern_of_other_parts()});
  config.method = config::Method::kLora;
  config.lora_r = adapter.at("r").get<int64_t>();
  config.lora_alpha = adapter.at("lora_alpha").get<double>();
  config.lora_dropout = adapter.value("lora_dropout", 0.0);
  config.use_rslora = adapter.value("use_rslora", false);
  const Json& targets = adapter.at("target_modules");
  config.target_modules = targets.is_string() ? config::targets_of_text(targets.get<std::string>())
                                              : targets.get<std::vector<std::string>>();
  read_target_parameters(adapter, fused, config);
  const Json saved = adapter.value("modules_to_save", Json());
  config.modules_to_save = saved.is_null() ? std::vector<std::string>() : saved.get<std::vector<std::string>>();
  std::vector<std::string>& modules = config.modules_to_save;
  if (std::find(modules.begin(), modules.end(), "shared") != modules.end()) {  // of which PEFT names every use
    std::erase_if(modules, [](const std::string& name) { return model::is_embedding_again(name + ".weight"); });
  }
  if (config.lora_r < 1 || config.lora_r > 65536) throw Error(origin + ": r is " + std::to_string(config.lora_r));
  return config;
} catch (const nlohmann::json::exception& error) {
  throw Error((folder / "adapter_config.json").string() + ": " + reason_of(error),
              "expected PEFT's adapter_config.json");
}

void refuse_untied(const std::filesystem::path& folder, const arch::Architecture& architecture) {
  if (!architecture.tie_word_embeddings) return;
  const std::string origin = (folder / "adapter_config.json").string();
  const Json adapter = read_json(origin);
  const std::string embedding = architecture.names().embedding + std::string(".weight");
  if (!table_of(folder, with_adapter({}, folder), architecture).trains(embedding)) return;
  if (adapter.contains(kTyingKey) && adapter.at(kTyingKey) == true) return;
  throw Error(origin + ": modules_to_save holds the embedding or the head of a model that ties the two, without " +
                  kTyingKey + ": they were trained apart, which one matrix cannot hold",
              std::string("train the adapter with ") + kTyingKey + ": true, or on a base with an lm_head of its own");
}

arch::Run resolve_adapted(const config::RunConfig& config, const arch::Architecture& architecture) {
  if (config.adapter_name_or_path.empty()) return arch::resolve(config, architecture);
  const config::RunConfig theirs = with_adapter(config, config.adapter_name_or_path);
  refuse_untied(config.adapter_name_or_path, architecture);
  const arch::ParameterTable other = table_of(config.adapter_name_or_path, theirs, architecture);
  arch::Run run = arch::resolve(config, architecture);
  const auto same_rows = [&](const auto& fact) {
    const auto facts = [&](const arch::ParameterTable& table, int64_t rank) {
      std::vector<int64_t> facts;
      for (const arch::ParameterRow& row : table.rows) {
        if (row.of_base()) facts.push_back(fact(row, rank));
      }
      return facts;
    };
    return facts(run.parameters, config.lora_r) == facts(other, theirs.lora_r);
  };
  const bool same_trained = same_rows([](const arch::ParameterRow& row, int64_t) { return row.trained; });
  const bool same_targets =
      same_rows([](const arch::ParameterRow& row, int64_t rank) { return row.adapter_rank / rank; });
  std::string differing;
  for (const std::string key :
       {"lora_r", "lora_alpha", "use_rslora", "target_modules", "target_parameters", "modules_to_save"}) {
    const config::Key& known = *config::find_key(key);
    bool same = known.get(config) == known.get(theirs);
    if (key == "modules_to_save") same = same_trained;
    if (key == "target_modules") same = same_targets;
    if (key == "target_parameters") same = same || same_targets;
    if (!same) differing += (differing.empty() ? "" : ", ") + key + ": " + known.get(theirs);
  }
  if (differing.empty()) return run;
  throw UsageError("adapter_name_or_path: " + config.adapter_name_or_path + " was trained with other settings",
                   "set " + differing);
}

bool has_adapter_weights(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / weights_file_name(kAdapterFiles));
}

void require_adapter_of(const std::filesystem::path& folder, const model::Decoder& model) {
  refuse_untied(folder, model.architecture());
  require_tensors(open_weights(folder), model);
}

void warn_of_other_base(const std::filesystem::path& folder, const std::filesystem::path& base) {
  const Json settings = read_json(folder / "adapter_config.json");
  const Json named = settings.is_object() ? settings.value("base_model_name_or_path", Json()) : Json();
  if (!named.is_string()) return;
  std::filesystem::path found;
  std::error_code absent;
  try {
    found = weights::find_model(with_home(named.get<std::string>()));
  } catch (const Error&) {
    return;
  }
  if (!std::filesystem::is_directory(found, absent) || is_same_path(found, base)) return;
  log_warning(folder.string() + " names " + found.string() + " as its base model, and is put on " + base.string() +
              ": it does what it was trained for only where both have the same weights");
}

void load_adapter(const std::filesystem::path& folder, const model::Decoder& model) {
  const at::NoGradGuard no_gradients;
  refuse_untied(folder, model.architecture());
  const weights::SafetensorsFile file = open_weights(folder);
  require_tensors(file, model);
  model::UnitKeeper* units = model.options().units;
  for (const model::Parameter& parameter : model.trained_parameters()) {
    const weights::TensorInfo& info = *file.find(name_in_adapter(file, parameter.name));
    void* bytes = const_cast<std::byte*>(file.data(info));
    const at::Tensor stored = at::from_blob(bytes, info.shape, at::TensorOptions(ops::scalar_type(info.dtype)));
    units == nullptr ? void(parameter.tensor.copy_(stored)) : units->fill(parameter.tensor, stored);
  }
  if (units != nullptr) units->close();
}

}  // namespace fathom::checkpoint
