// Opens a run's model folder, tokenizer and data files.
#include "train/inputs.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "data/files.h"

namespace fathom::train {
namespace {

bool has_tokenizer(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "tokenizer.model") || std::filesystem::exists(folder / "tokenizer.json");
}

int64_t longest(const data::Dataset& dataset) {
  size_t length = 0;
  for (const data::Example& example : dataset.examples) length = std::max(length, example.ids.size());
  return static_cast<int64_t>(length);
}

data::Dataset read_file(const std::string& file, const RunInputs& inputs, const config::RunConfig& config) {
  const data::DatasetOptions options{config.max_length, config.completion_only_loss, inputs.shape.vocab_size};
  data::Dataset dataset = data::read_dataset(file, inputs.tokenizer.get(), options);
  if (dataset.truncated > 0) {
    log_warning(file + ": " + std::to_string(dataset.truncated) + " of " +
                std::to_string(dataset.examples.size() + dataset.without_target) +
                " examples are longer than max_length " + std::to_string(config.max_length) + " and were cut");
  }
  if (dataset.without_target > 0) {
    log_warning(file + ": " + std::to_string(dataset.without_target) +
                " examples have no token to learn from and were left out");
  }
  if (dataset.examples.empty()) throw Error(file + ": no example to learn from", "check the file and max_length");
  return dataset;
}

data::Dataset read(const std::vector<std::filesystem::path>& files, const RunInputs& inputs,
                   const config::RunConfig& config) {
  data::Dataset all;
  for (const std::filesystem::path& file : files) {
    data::Dataset one = read_file(file.string(), inputs, config);
    all.truncated += one.truncated;
    all.without_target += one.without_target;
    std::move(one.examples.begin(), one.examples.end(), std::back_inserter(all.examples));
  }
  return all;
}

}  // namespace

RunInputs open_inputs(const config::RunConfig& config, bool weights_required) {
  RunInputs inputs;
  inputs.folder =
      std::make_unique<weights::ModelFolder>(config.model_name_or_path, weights_required && !config.random_init);
  inputs.shape =
      model::parse_model_shape(inputs.folder->config(), (inputs.folder->path() / "config.json").string(),
                               weights_required ? model::ScaledPositions::kRefused : model::ScaledPositions::kIgnored);
  if (has_tokenizer(inputs.folder->path())) inputs.tokenizer = tokenizer::Tokenizer::open(inputs.folder->path());
  inputs.train = read(data::find_files(config.train_file, "train_file"), inputs, config);
  inputs.validation = read(data::find_files(config.validation_file, "validation_file"), inputs, config);
  inputs.longest_train = longest(inputs.train);
  inputs.longest_validation = longest(inputs.validation);
  return inputs;
}

DType storage_dtype(const config::RunConfig& config, const model::ModelShape& shape) {
  if (config.dtype) return *config.dtype;
  return config.method == config::Method::kFull ? DType::kF32 : shape.dtype;
}

int32_t padding_id(const RunInputs& inputs) {
  if (inputs.tokenizer && inputs.tokenizer->pad_id) return *inputs.tokenizer->pad_id;
  if (inputs.shape.pad_token_id) return static_cast<int32_t>(*inputs.shape.pad_token_id);
  return 0;
}

}  // namespace fathom::train
