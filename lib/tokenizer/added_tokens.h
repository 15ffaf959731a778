// Tokens that are found in a text before the model sees it: special ones, and those added to a vocabulary later.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"

namespace fathom::tokenizer {

// Finds added tokens as Hugging Face's tokenizers do: the leftmost, of those that begin there the longest; lstrip and
// rstrip take the white space beside them in, single_word passes over those within a word.
class AddedTokenFinder {
 public:
  struct Stretch {
    size_t begin, end;  // in bytes
    int32_t id;         // kText: no token
  };
  static constexpr int32_t kText = -1;

  AddedTokenFinder() = default;
  explicit AddedTokenFinder(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }
  // The text, which is well-formed, as stretches of text and tokens. Time is bounded by its length times that of the
  // longest token.
  std::vector<Stretch> find(std::string_view text) const;

 private:
  // The next place at or behind `at` where a token may begin.
  size_t next_candidate(std::string_view text, size_t at) const;
  const AddedToken* longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;      // ordered by text
  std::array<bool, 256> first_byte_{};  // of any token
  bool one_first_byte_ = false;         // all tokens begin with the same
};

}  // namespace fathom::tokenizer
