// YAML and key=value pairs in, one complete RunConfig out; or one error that tells everything that is wrong.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"
#include "config/to_yaml.h"  // its counterpart: who loads also writes

namespace fathom::config {

// What the run is for: each needs other keys.
enum class Purpose {
  kTrain,     // model_name_or_path, train_file, output_dir
  kEvaluate,  // model_name_or_path, validation_file
  kEstimate   // model_name_or_path
};

// overrides: "key=value", which win over the file; a text key takes its value as it stands, others as YAML.
// Throws UsageError with one line per problem: "file:line:column: key: expected X, got Y; remedy". Keys that the other
// values make meaningless (lora_r with method: full) are refused beside those values, and come out with their defaults.
// given: the keys that have a value there.
RunConfig load_config(const std::filesystem::path& yaml, const std::vector<std::string>& overrides,
                      Purpose purpose = Purpose::kTrain, std::set<std::string>* given = nullptr);
// The same without a file: the model, the overrides, and defaults.
RunConfig config_of_model(const std::string& model_name_or_path, const std::vector<std::string>& overrides,
                          Purpose purpose = Purpose::kEstimate, std::set<std::string>* given = nullptr);
// The same from a text; file: how messages call it.
RunConfig parse_config(std::string_view yaml, const std::string& file, const std::vector<std::string>& overrides,
                       Purpose purpose = Purpose::kTrain, std::set<std::string>* given = nullptr);

}  // namespace fathom::config
