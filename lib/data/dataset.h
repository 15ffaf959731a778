// Examples: token ids with their labels, read from JSON lines. No torch header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace fathom::data {

inline constexpr int64_t kIgnored = -100;  // a label that counts for no loss

struct Example {
  std::vector<int32_t> ids;
  std::vector<int32_t> labels;  // of the same length, unshifted; kIgnored where there is no loss
};

struct DatasetOptions {
  int64_t max_length = 1024;                 // longer examples are cut on the right
  std::optional<bool> completion_only_loss;  // unset: true for prompt/completion lines
  int64_t vocabulary_size = 0;               // ids outside it are refused with file and line; 0: not checked
};

struct Dataset {
  std::vector<Example> examples;
  int64_t truncated = 0;       // examples that were cut
  int64_t without_target = 0;  // examples that had no target token left and were dropped
};

// Each line is {"text"}, {"prompt", "completion"} or {"input_ids", "labels"?}; one file holds one kind. Prompt and
// completion are tokenized together; BOS as the tokenizer says, EOS appended unless there, inside the loss. Errors name
// file and line. tokenizer: may be null if every line has input_ids.
Dataset read_dataset(const std::filesystem::path& file, const tokenizer::Tokenizer* tokenizer,
                     const DatasetOptions& options);

// The dataset as it would have been read with a smaller max_length; may be left without examples.
Dataset cut(const Dataset& dataset, int64_t max_length);

// XXH3-128 of all ids and labels in their order: two datasets of one fingerprint train alike, so a resumed run can tell
// that its file or tokenizer has changed.
std::string fingerprint(const Dataset& dataset);

}  // namespace fathom::data
