// Tokens that are found in a text before the model sees it: special ones, and those added to a vocabulary later.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/special_tokens.h"
#include "tokenizer/tokenizer.h"

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
  // Whether the special token that was found at these bytes stays text.
  using StaysText = std::function<bool(size_t begin, size_t end)>;
  // The text, which is well-formed, as stretches of text and tokens. Time is bounded by its length times that of the
  // longest token. stays_text: empty for none.
  std::vector<Stretch> find(std::string_view text, const StaysText& stays_text = {}) const;

 private:
  // The next place at or behind `at` where a token may begin.
  size_t next_candidate(std::string_view text, size_t at) const;
  const AddedToken* longest_at(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;      // ordered by text
  std::array<bool, 256> first_byte_{};  // of any token
  bool one_first_byte_ = false;         // all tokens begin with the same
};

// For a search in a text that was made of another, in which the literals lie. origin: where a byte of it came from;
// lives as long as what is returned.
template <typename Origin>
AddedTokenFinder::StaysText inside(Literals literals, const Origin& origin) {
  if (literals.empty()) return {};
  return [literals, &origin](size_t begin, size_t end) {
    const size_t first = origin(begin), last = origin(end - 1);
    const auto literal =
        std::partition_point(literals.begin(), literals.end(), [&](const Literal& some) { return some.end <= first; });
    return literal != literals.end() && literal->begin <= last;
  };
}

}  // namespace fathom::tokenizer
