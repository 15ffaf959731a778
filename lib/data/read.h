// Data files to examples: JSON lines, tokenized by all threads, kept in memory or in a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "config/run_config.h"
#include "data/dataset.h"
#include "data/notes.h"
#include "tokenizer/tokenizer.h"

namespace fathom::data {

struct DatasetOptions {
  int64_t max_length = 1024;  // longer examples are cut on the right; sources, whose last token stays
  // Set: lines become sources and targets of an encoder and decoder (Dataset::decoder_start), longer targets are cut.
  std::optional<int32_t> decoder_start;
  int64_t max_target_length = 1024;
  int64_t answers = 1;                        // 2: lines are preferences, each of two rows (encode_preference)
  std::optional<bool> completion_only_loss;   // unset: true for prompt and completion
  std::vector<int64_t> placeholder_ids = {};  // in whose place pictures or sound stand: refused with file and line
  int64_t vocabulary_size = 0;                // ids outside it are refused with file and line; 0: not checked
  config::DatasetFormat format = config::DatasetFormat::kAuto;  // auto: as the keys of the first line tell
  bool assistant_only_loss = false;                             // of conversations: what the assistant says alone
  bool split_special_tokens = false;                            // texts of special tokens in what is said stay text
  // Called once if lines are conversations; empty, or giving nothing: there is no template for them.
  std::function<std::optional<chat::ChatTemplate>()> open_chat;
  int64_t threads = 0;  // 0: as many as the machine has
  // Where tokens of large files are kept between runs; empty: tokens stay in memory.
  std::filesystem::path cache_folder;
  std::string identity;  // of tokenizer and chat template: tokens are kept for files and settings that are equal
};

// What a file holds, as it was read.
struct FileExamples {
  Dataset dataset;         // cut to max_length
  int64_t examples = 0;    // before
  int64_t duplicates = 0;  // examples that are equal to an earlier one of the file
  Notes notes;             // of lines
  std::string not_kept;    // why the tokens lie in memory although a cache_folder was given; else empty
};

// One file holds one format (docs/data.md). Prompt and completion are tokenized together; BOS as the tokenizer says,
// EOS appended unless there, inside the loss; conversations are written by the chat template, which has both. Throws
// Error with file and line for what is wrong, at most five lines of them and the number of the rest; and for a file
// without an example to learn from. tokenizer: may be null if every line has input_ids.
FileExamples read_file_examples(const std::filesystem::path& file, const tokenizer::Tokenizer* tokenizer,
                                const DatasetOptions& options);
// The same, the examples alone.
Dataset read_dataset(const std::filesystem::path& file, const tokenizer::Tokenizer* tokenizer,
                     const DatasetOptions& options);

}  // namespace fathom::data
