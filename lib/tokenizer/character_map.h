// SentencePiece's table of what characters become (precompiled_charsmap), as Hugging Face's Precompiled applies it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/offset_map.h"

namespace fathom::tokenizer {

class CharacterMap {
 public:
  // table: the bytes of a double-array trie (a 32-bit number, and so many bytes of 32-bit units), then the texts that
  // its values point into, each ended by a zero. where: what errors call it. Throws Error for one that is damaged.
  CharacterMap(std::string_view table, const std::string& where);

  // The text, which is well-formed, rewritten: grapheme clusters below six bytes by the shortest of the table's keys
  // that they begin with, the characters of others one by one. Throws Error where more than most_bytes come out.
  std::string apply(std::string_view text, OffsetMap& origins, size_t most_bytes) const;

 private:
  // What the shortest key that the text begins with becomes.
  std::optional<std::string_view> find(std::string_view text) const;

  std::string where_;
  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 128> kept_{};  // whether an ASCII character before another stays what it is
};

}  // namespace fathom::tokenizer
