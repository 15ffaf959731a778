// What a tokenizer's JSON files say beside the model: special tokens, added tokens and the flags for BOS and EOS.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace fathom::tokenizer {

struct AddedToken {
  std::string text;
  int32_t id = 0;
  bool special = false;  // left out when decoding
};

struct TokenizerFiles {
  std::optional<std::string> bos, eos, unk, pad;  // texts of the special tokens, where a file names them
  std::vector<std::string> other_special;         // additional_special_tokens and the like
  std::map<int32_t, AddedToken> added;            // added_tokens_decoder and added_tokens.json
  bool adds_bos = true, adds_eos = false;
  bool adds_prefix_space = true;
};

// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json of the folder, each of which may be
// missing. Throws Error naming file and key for what this engine would do differently: another tokenizer class, added
// tokens that swallow neighbouring blanks or match whole words only, files that contradict each other.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
