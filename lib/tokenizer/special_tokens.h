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
  bool special = false;      // left out when decoding
  bool normalized = false;   // matched in the normalized text
  bool lstrip = false;       // takes white space before it in
  bool rstrip = false;       // and behind it
  bool single_word = false;  // not matched within a word
};

// {"content": …, "special": …, …} of either file, without its id. where: what errors call it (file and key).
AddedToken read_added_token(const Json& token, const std::string& where);

struct TokenizerFiles {
  std::optional<std::string> bos, eos, unk, pad;    // texts of the special tokens, where a file names them
  std::vector<std::string> other_special;           // additional_special_tokens and the like
  std::map<int32_t, AddedToken> added;              // added_tokens_decoder and added_tokens.json
  std::map<std::string, int32_t> added_ids;         // of those, by text
  std::map<std::string, AddedToken> special_forms;  // of special tokens, by text, where a file says how they match
  std::optional<bool> adds_bos, adds_eos, adds_prefix_space;
  std::string tokenizer_class;        // empty where none is named
  std::optional<uint64_t> extra_ids;  // T5's sentinels

  // A special token that is no added token; its id is not set.
  AddedToken special_token(const std::string& text) const;
  bool is_t5() const { return tokenizer_class == "T5Tokenizer" || tokenizer_class == "T5TokenizerFast"; }
};

// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json of the folder, each of which may be
// missing. Throws Error naming file and key for files that contradict each other.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
