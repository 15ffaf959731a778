// The tokens of a byte-pair encoding, by id and by the bytes that they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace fathom::tokenizer {

class Vocabulary {
 public:
  enum class Spelling {
    kBytes,      // a character for each byte (byte_alphabet.h), of byte-level models
    kCharacters  // a token's own text
  };
  // tokens: `vocab` of tokenizer.json, stored spelling to id. where: what errors call it. Throws Error for ids that are
  // no integers, used twice, or far more than there are tokens, and for tokens that were chosen to collide.
  Vocabulary(const Json& tokens, std::string where, Spelling spelling = Spelling::kBytes);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }  // the highest id + 1
  bool contains(int64_t id) const { return id >= 0 && id < size() && entries_[id].kind != Kind::kAbsent; }
  // Of an id that is contained. A token whose spelling has characters that are no bytes stands for that spelling.
  std::string_view bytes(int32_t id) const { return {text_.data() + entries_[id].begin, entries_[id].bytes}; }
  std::string spelling(int32_t id) const;
  // The token that stands for these bytes, or that is spelled so.
  std::optional<int32_t> find(std::string_view bytes) const { return find(bytes, Kind::kBytes); }
  std::optional<int32_t> find_spelling(std::string_view spelling) const;

 private:
  enum class Kind : uint8_t { kAbsent, kBytes, kForeign };
  struct Entry {
    uint32_t begin = 0, bytes = 0;  // in text_
    Kind kind = Kind::kAbsent;
  };
  // What a stored spelling stands for, where it spells bytes.
  std::optional<std::string> spelled_bytes(std::string_view spelling) const;
  void insert(int32_t id);
  std::optional<int32_t> find(std::string_view bytes, Kind kind) const;

  std::string where_;
  Spelling spelling_;
  std::string text_;  // the bytes of all tokens, end to end
  std::vector<Entry> entries_;
  std::vector<int32_t> slots_;  // open addressing by the hash of a token's bytes; -1 where there is none
};

}  // namespace fathom::tokenizer
