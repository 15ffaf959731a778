// Opens a run's model folder, tokenizer and data files.
#include "train/inputs.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/bytes.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"
#include "checkpoint/adapter.h"
#include "data/files.h"
#include "data/read.h"
#include "data/token_file.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;

// Tokens of more data than this are kept in a file, for memory and for the next run.
constexpr uint64_t kMostInMemory = uint64_t{32} << 20;

// Everything in the folder that decides which tokens a text becomes.
constexpr std::array kTokenizerFiles{"tokenizer.model",         "tokenizer.json",    "tokenizer_config.json",
                                     "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};

bool has_tokenizer(const fs::path& folder) {
  return fs::exists(folder / "tokenizer.model") || fs::exists(folder / "tokenizer.json");
}

std::string identity_of(const fs::path& folder) {
  std::string identity;
  for (const char* name : kTokenizerFiles) identity += fs::exists(folder / name) ? hash_file(folder / name) : "-";
  return hash_bytes(identity.data(), identity.size());
}

uint64_t bytes_of(const std::vector<fs::path>& files) {
  uint64_t bytes = 0;
  std::error_code absent;  // who opens the file says so
  for (const fs::path& file : files) {
    const uint64_t size = fs::file_size(file, absent);
    if (!absent) bytes += size;
  }
  return bytes;
}

void tell_losses(const std::string& file, const data::FileExamples& read, int64_t max_length) {
  const data::Losses& losses = read.dataset.losses();
  const auto of_all = [&](int64_t count) {
    return file + ": " + format_count(count) + " of " + format_count(read.examples) + " examples ";
  };
  if (losses.truncated > 0) {
    log_warning(of_all(losses.truncated) + "are longer than max_length " + std::to_string(max_length) +
                " and were cut: " + format_count(losses.cut_tokens) + " tokens, " + format_count(losses.cut_targets) +
                " of them targets");
  }
  if (losses.without_target > 0) {
    log_warning(of_all(losses.without_target) + "have no token to learn from and were left out");
  }
  if (read.duplicates > 0) log_warning(of_all(read.duplicates) + "repeat earlier ones");
}

data::Dataset read(const std::vector<fs::path>& files, const RunInputs& inputs, const config::RunConfig& config) {
  data::DatasetOptions options;
  options.max_length = config.max_length;
  options.completion_only_loss = config.completion_only_loss;
  options.vocabulary_size = inputs.shape.vocab_size;
  options.format = config.dataset_format;
  options.threads = config.num_threads;
  if (bytes_of(files) > kMostInMemory) {
    options.cache_folder = data::default_cache_folder();
    options.identity = identity_of(inputs.folder->path());
  }
  std::vector<data::Dataset> parts;
  for (const fs::path& file : files) {
    data::FileExamples read = data::read_file_examples(file, inputs.tokenizer.get(), options);
    tell_losses(file.string(), read, config.max_length);
    parts.push_back(std::move(read.dataset));
  }
  return data::Dataset::join(parts);
}

}  // namespace

RunInputs open_inputs(const config::RunConfig& config, bool weights_required) {
  RunInputs inputs;
  inputs.folder =
      std::make_unique<weights::ModelFolder>(config.model_name_or_path, weights_required && !config.random_init);
  inputs.shape = model::parse_model_shape(inputs.folder->config(), (inputs.folder->path() / "config.json").string());
  if (has_tokenizer(inputs.folder->path())) inputs.tokenizer = tokenizer::Tokenizer::open(inputs.folder->path());
  inputs.train = read(data::find_files(config.train_file, "train_file"), inputs, config);
  inputs.validation = read(data::find_files(config.validation_file, "validation_file"), inputs, config);
  if (config.validation_split > 0 && !inputs.train.empty()) {
    data::Split split = data::split(inputs.train, config.validation_split, static_cast<uint64_t>(config.seed));
    inputs.train = std::move(split.kept);
    inputs.validation = std::move(split.held_out);
  }
  inputs.longest_train = inputs.train.longest();
  inputs.longest_validation = inputs.validation.longest();
  if (!config.adapter_name_or_path.empty()) checkpoint::refuse_other_adapter(config, inputs.shape);
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
