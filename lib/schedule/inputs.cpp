// Opens the model folder and the tokenizer, reads the data files, and tells what is wrong with them.
#include "schedule/inputs.h"

#include <algorithm>
#include <filesystem>

#include "arch/adapter_targets.h"
#include "arch/attention_by_scores.h"
#include "arch/precision.h"
#include "arch/read_folder.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "data/files.h"
#include "data/read.h"
#include "data/token_file.h"
#include "schedule/answers.h"
#include "schedule/run_date.h"
#include "schedule/steps.h"
#include "schedule/tokens_identity.h"

namespace fathom::schedule {
namespace {

namespace fs = std::filesystem;

// Tokens of more data than this are kept in a file, for memory and for the next run.
constexpr uint64_t kMostInMemory = uint64_t{32} << 20;

uint64_t bytes_of(const std::vector<fs::path>& files) {
  uint64_t bytes = 0;
  std::error_code absent;  // who opens the file says so
  for (const fs::path& file : files) {
    const uint64_t size = fs::file_size(file, absent);
    if (!absent) bytes += size;
  }
  return bytes;
}

// longest_text: as arch::Architecture has it.
void warn_of_examples(const std::string& file, const data::FileExamples& read, int64_t max_length,
                      std::optional<int64_t> longest_text) {
  const data::Truncation& lost = read.dataset.truncation();
  const auto of_all = [&](int64_t count) {
    return file + ": " + format_count(count) + " of " + format_count(read.examples) + " examples ";
  };
  if (lost.truncated > 0) {
    log_warning(
        of_all(lost.truncated) + "are longer than max_length " + std::to_string(max_length) +
        (read.dataset.decoder_start() ? ", or their targets longer than max_target_length," : "") +
        " and were cut: " + format_count(lost.cut_tokens) + " tokens, " + format_count(lost.cut_targets) +
        " of them targets; " + (longest_text && max_length >= *longest_text ? "" : "raise max_length, or ") +
        (read.dataset.rows_of_example() > 1 ? "shorten prompts and answers" : "write what is longer in several lines"));
  }
  if (lost.alike > 0) {
    log_warning(of_all(lost.alike) + "have the same tokens for both answers once they are cut, and teach nothing; " +
                "raise max_length, or leave them out");
  }
  if (lost.without_target > 0) {
    log_warning(of_all(lost.without_target) + "have no token to learn from and were left out");
  }
  for (const std::string& told : read.notes.told(read.examples)) log_warning(file + ": " + told);
  if (read.duplicates > 0) log_warning(of_all(read.duplicates) + "repeat earlier ones");
}

// What a run reads keeps its tokens in one folder, or, once that has failed, in memory.
class TokenCache {
 public:
  std::optional<fs::path> folder() {
    try {
      if (!failed_) return data::default_cache_folder();
    } catch (const data::TokenFileError& error) {
      fail(error.what());
    }
    return std::nullopt;
  }
  void fail(const std::string& reason) {
    failed_ = true;
    log_warning("tokens are held in memory and not kept for the next run: " + reason);
  }

 private:
  bool failed_ = false;
};

data::Dataset read(const std::vector<fs::path>& files, const RunInputs& inputs, const config::RunConfig& config,
                   TokenCache& cache, int64_t& conversations) {
  data::DatasetOptions options;
  options.max_length = config.max_length;
  options.max_target_length = config::target_length(config);
  if (inputs.architecture.encoder) {
    options.decoder_start = static_cast<int32_t>(inputs.architecture.encoder->decoder_start_token_id);
  }
  options.completion_only_loss = config.completion_only_loss;
  options.vocabulary_size = inputs.architecture.vocab_size;
  if (inputs.architecture.text_part) options.placeholder_ids = inputs.architecture.text_part->placeholder_ids;
  options.answers = config::row_of(config.objective).rows;
  options.format = config.dataset_format;
  options.assistant_only_loss = config.assistant_only_loss;
  options.split_special_tokens = config.split_special_tokens;
  options.open_chat = [&inputs] {
    auto chat = chat::ChatTemplate::open(inputs.folder->path());
    if (chat) chat->set_now(start_of_day(inputs.date));
    return chat;
  };
  options.threads = config.num_threads;
  const bool keeps = bytes_of(files) > kMostInMemory;
  if (keeps) options.identity = tokens_identity(inputs.folder->path(), inputs.date);
  std::vector<data::Dataset> parts;
  for (const fs::path& file : files) {
    options.cache_folder = keeps ? cache.folder().value_or("") : "";
    data::FileExamples read = data::read_file_examples(file, inputs.tokenizer.get(), options);
    if (!read.not_kept.empty()) cache.fail(read.not_kept);
    warn_of_examples(file.string(), read, config.max_length, inputs.architecture.longest_text());
    conversations += read.notes.conversations();
    parts.push_back(std::move(read.dataset));
  }
  return data::Dataset::join(parts);
}

// A model that is never shown where to stop talks on after training.
void warn_of_endless_answers(const RunInputs& inputs) {
  constexpr int64_t kLookedAt = 1000;
  const std::vector<int64_t> stops = stop_ids(inputs);
  if (stops.empty() || inputs.train.empty()) return;
  const int64_t looked_at = std::min(kLookedAt, inputs.train.row_count());
  for (int64_t row = 0; row < looked_at; ++row) {
    const std::vector<int32_t> labels = inputs.train.example(row).labels;
    const bool stopped = std::any_of(labels.begin(), labels.end(), [&](int32_t label) {
      return std::find(stops.begin(), stops.end(), label) != stops.end();
    });
    if (stopped) return;
  }
  std::string names;
  for (const int64_t id : stops) {
    const bool named = inputs.tokenizer && id >= 0 && id < inputs.tokenizer->vocabulary_size();
    names.append(names.empty() ? "" : ", ").append(std::to_string(id));
    if (named) names.append(" ").append(inputs.tokenizer->piece(static_cast<int32_t>(id)));
  }
  log_warning(
      "the loss of none of the first " + format_count(looked_at) +
      (inputs.train.rows_of_example() > 1 ? " answers" : " examples") + " counts a token at which generation stops (" +
      names +
      "): the model will not learn to end; raise max_length if ends are cut off, end input_ids with it, or, where "
      "the chat template ends turns with another token, name that as eos_token_id in generation_config.json");
}

void check_positions(const RunInputs& inputs, const config::RunConfig& config) {
  if (inputs.architecture.relative) return;  // distances have no end
  const int64_t positions = inputs.architecture.max_position_embeddings;
  const int64_t longest = std::max(inputs.train.longest(), inputs.validation.longest());
  refuse_longer_texts(inputs.architecture.longest_text(), config, longest);
  if (longest <= positions) return;
  log_warning("the longest example has " + format_count(longest) + " tokens, but the model was made for " +
              format_count(positions) +
              " positions (max_position_embeddings): set max_length: " + std::to_string(positions));
}

// Tokens that were added to the tokenizer have no row in the weights.
void cover_tokenizer(RunInputs& inputs) {
  if (!inputs.tokenizer) return;
  const int64_t rows = inputs.architecture.vocab_size, tokens = inputs.tokenizer->vocabulary_size();
  if (tokens <= rows) return;
  const std::string counts = inputs.folder->path().string() + ": the tokenizer has " + format_count(tokens) +
                             " tokens, vocab_size of config.json is " + format_count(rows);
  if (tokens > 2 * rows) throw Error(counts, "check that tokenizer and weights belong together");
  log_warning(
      counts + ": embedding and head get " + format_count(tokens - rows) +
      " rows, each the mean of the others; full training learns them, and so does LoRA with modules_to_save: [" +
      arch::last_part(inputs.architecture.names().embedding) + ", " + inputs.architecture.names().head + "]");
  inputs.architecture = arch::with_added_tokens(inputs.architecture, tokens - rows);
}

void refuse_packing(const arch::Architecture& architecture) {
  if (!arch::attends_by_scores(architecture, /*training=*/true)) return;
  const char* why = architecture.encoder       ? "an encoder and decoder has no rows of documents end to end"
                    : architecture.dropout > 0 ? "dropout of attention's probabilities needs rows of one text each"
                                               : "capped scores of attention need rows of one text each";
  throw UsageError("packing: true, but " + std::string(why), "set packing: false; group_by_length: true saves padding");
}

void refuse_for_encoder(const config::RunConfig& config, const arch::Precision& precision) {
  if (precision.computed != DType::kF16 && precision.stored != DType::kF16) return;
  const std::string stored = "dtype: bfloat16 or float32 in place of float16";
  const bool stores = config.dtype == DType::kF16;
  throw UsageError(
      std::string(config.fp16 ? "fp16: true" : "dtype: float16") +
          ", but T5's feed-forward parts make numbers above 65504, where FP16 ends; transformers keeps "
          "each wo in FP32 and clamps the others, which is not done here",
      !config.fp16 ? "set " + stored : "set bf16: true in place of fp16" + (stores ? ", and " + stored : ""));
}

void refuse_for_preferences(const arch::Architecture& architecture) {
  const char* why = architecture.encoder                    ? "the model is an encoder and decoder"
                    : architecture.router_aux_loss_coef > 0 ? "its routers add to the loss (router_aux_loss_coef)"
                                                            : nullptr;
  if (why == nullptr) return;
  throw UsageError("the objective learns preferences, but " + std::string(why) + ", which is not supported so far",
                   "set objective: sft");
}

}  // namespace

std::vector<int64_t> stop_ids(const RunInputs& inputs) {
  std::vector<int64_t> ids = inputs.architecture.eos_token_ids;
  const Json* generation = inputs.folder->generation_config();
  if (generation && generation->contains("eos_token_id") && !generation->at("eos_token_id").is_null()) {
    const Json& given = generation->at("eos_token_id");
    const Json listed = given.is_array() ? given : Json::array({given});
    const bool whole = std::all_of(listed.begin(), listed.end(), [](const Json& id) { return id.is_number_integer(); });
    if (!whole) {
      throw Error((inputs.folder->path() / "generation_config.json").string() +
                  ": eos_token_id: expected an id or a list of ids, got " + given.dump().substr(0, 80));
    }
    ids = listed.get<std::vector<int64_t>>();
  }
  if (ids.empty() && inputs.tokenizer && inputs.tokenizer->eos_id) ids = {*inputs.tokenizer->eos_id};
  return ids;
}

// Null where the folder has none. Not needed: of a plan without data, which asks for the number of its tokens alone.
static std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const fs::path& folder, bool needed) {
  if (!tokenizer::Tokenizer::is_in(folder)) {
    if (const auto other = tokenizer::Tokenizer::other_kind_in(folder)) log_warning(*other);
    return nullptr;
  }
  try {
    return tokenizer::Tokenizer::open(folder);
  } catch (const Error& error) {
    if (needed) throw;
    log_warning(std::string(error.what()) +
                ". The plan takes config.json's vocab_size and no data, and needs no tokenizer; training does");
    return nullptr;
  }
}

RunInputs read_inputs(const config::RunConfig& config, bool weights_required) {
  RunInputs inputs;
  inputs.folder =
      std::make_unique<weights::ModelFolder>(config.model_name_or_path, weights_required && !config.random_init);
  inputs.architecture = arch::read_architecture(*inputs.folder);
  if (config.packing) refuse_packing(inputs.architecture);
  if (config::row_of(config.objective).learns_preferences()) refuse_for_preferences(inputs.architecture);
  if (inputs.architecture.encoder) {
    refuse_for_encoder(config, arch::precision_of(config, inputs.architecture.dtype_in_use()));
  } else if (config.max_target_length > 0) {
    throw UsageError("max_target_length: the model is a decoder, which has no targets apart from its text",
                     "set max_length");
  }
  const bool has_data = !config.train_file.empty() || !config.validation_file.empty();
  inputs.tokenizer = open_tokenizer(inputs.folder->path(), /*needed=*/weights_required || has_data);
  if (!inputs.tokenizer && config.predict_with_generate) {
    throw UsageError("predict_with_generate: true, but " + inputs.folder->path().string() + " has no tokenizer",
                     "put its tokenizer's files there, or remove predict_with_generate");
  }
  cover_tokenizer(inputs);
  inputs.date = date_of_run(config);
  TokenCache cache;
  int64_t conversations = 0;
  inputs.train = read(data::find_files(config.train_file, "train_file"), inputs, config, cache, conversations);
  inputs.validation =
      read(data::find_files(config.validation_file, "validation_file"), inputs, config, cache, conversations);
  if (config.assistant_only_loss && conversations == 0 && !(inputs.train.empty() && inputs.validation.empty())) {
    log_warning("assistant_only_loss: true changes nothing: no file holds conversations");
  }
  if (config.validation_split > 0 && !inputs.train.empty()) {
    data::Split split = data::split(inputs.train, config.validation_split, static_cast<uint64_t>(config.seed));
    inputs.train = std::move(split.kept);
    inputs.validation = std::move(split.held_out);
  }
  check_positions(inputs, config);
  const std::vector<AnswerShape> answers = answer_shapes(config, inputs.validation);
  refuse_answers_read_anew(inputs.architecture, answers);
  if (!answers.empty()) refuse_longer_answers(inputs.architecture, answers, longest_answer(config, inputs.validation));
  warn_of_endless_answers(inputs);
  inputs.longest_train = inputs.train.longest();
  inputs.longest_validation = inputs.validation.longest();
  return inputs;
}

bool saves_checkpoints(const config::RunConfig& config) {
  return config.save_strategy != config::Cadence::kNo || config.load_best_model_at_end;
}

int32_t padding_id(const RunInputs& inputs) {
  if (inputs.tokenizer && inputs.tokenizer->pad_id) return *inputs.tokenizer->pad_id;
  if (inputs.architecture.pad_token_id) return static_cast<int32_t>(*inputs.architecture.pad_token_id);
  return 0;
}

}  // namespace fathom::schedule
