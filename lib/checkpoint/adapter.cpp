// Reads adapter_config.json and adapter_model.safetensors.
#include "checkpoint/adapter.h"

#include "base/error.h"
#include "base/json.h"
#include "checkpoint/model_files.h"
#include "checkpoint/named_tensors.h"
#include "weights/folder.h"

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

}  // namespace

config::RunConfig with_adapter(config::RunConfig config, const std::filesystem::path& folder) try {
  weights::refuse_phantom(folder);
  const std::string origin = (folder / "adapter_config.json").string();
  const Json adapter = read_json(origin);
  expect(adapter, origin, "peft_type", {"LORA"});
  expect(adapter, origin, "bias", {"none"});
  expect(adapter, origin, "fan_in_fan_out", {false});
  expect(adapter, origin, "modules_to_save", {nullptr, Json::array()});
  expect(adapter, origin, "use_dora", {false});
  expect(adapter, origin, "use_rslora", {false});
  for (const char* key : {"rank_pattern", "alpha_pattern"}) expect(adapter, origin, key, {Json::object(), nullptr});
  for (const char* key : {"layers_to_transform", "layers_pattern", "exclude_modules"})
    expect(adapter, origin, key, {nullptr});
  config.method = config::Method::kLora;
  config.lora_r = adapter.at("r").get<int64_t>();
  config.lora_alpha = adapter.at("lora_alpha").get<double>();
  config.lora_dropout = adapter.value("lora_dropout", 0.0);
  const Json& targets = adapter.at("target_modules");
  config.target_modules = targets.is_string() ? std::vector<std::string>{targets.get<std::string>()}
                                              : targets.get<std::vector<std::string>>();
  if (config.lora_r < 1 || config.lora_r > 65536) throw Error(origin + ": r is " + std::to_string(config.lora_r));
  return config;
} catch (const nlohmann::json::exception& error) {
  throw Error((folder / "adapter_config.json").string() + ": " + error.what(), "expected PEFT's adapter_config.json");
}

void load_adapter(const std::filesystem::path& folder, const model::Llama& model) {
  NamedTensors adapters;
  for (const model::Parameter& parameter : model.trained_parameters()) {
    adapters.emplace_back(parameter.name, parameter.tensor);
  }
  const ModelFiles files{{}, model.options().lora};
  copy_tensors(weights::SafetensorsFile(folder / weights_file_name(files)), adapters, weights_prefix(files));
}

}  // namespace fathom::checkpoint
