// Where a text can be cut so that its parts, tokenized apart, give the tokens of the whole.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_set>

namespace fathom::tokenizer {

// The pairs of neighbours in the pieces of a vocabulary. No piece, and so no merge on the way to one, reaches across
// two characters that are neighbours in none.
class CharacterPairs {
 public:
  void add(std::string_view piece);  // what follows an ill-formed character is left out
  bool contains(char32_t left, char32_t right) const { return pairs_.contains(pair(left, right)); }

 private:
  static uint64_t pair(char32_t left, char32_t right) { return uint64_t{left} << 32 | right; }

  std::unordered_set<uint64_t> pairs_;
};

}  // namespace fathom::tokenizer
