// Byte-pair encoding over bytes (GPT-2 and what followed): pieces of text into token ids.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace fathom::tokenizer {

// What one thread encodes with; kept from text to text.
struct BpeWorkspace {
  struct Symbol {
    int32_t id;  // -1: joined into the symbol before it
    int32_t previous, next;
  };
  std::vector<Symbol> symbols;       // of a long piece
  std::vector<uint64_t> candidates;  // heap of possible merges: rank and place
};

class ByteLevelBpe {
 public:
  // model: of tokenizer.json. Throws Error naming `file` and key for what this one would do differently.
  ByteLevelBpe(const Json& model, const std::string& file);

  // Appends the tokens of a piece of text, in n log n of its length.
  void encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void merge_short(std::string_view piece, std::vector<int32_t>& ids) const;
  void merge_long(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_ids_{};
  bool ignores_merges_ = false;  // a piece that is a token is that token, whatever the merges make of it
};

}  // namespace fathom::tokenizer
