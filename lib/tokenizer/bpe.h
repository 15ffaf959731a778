// Byte-pair encoding: pieces of text into token ids, over bytes (GPT-2 and what followed) or over characters
// (SentencePiece's, as tokenizer.json holds it).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/merge_table.h"
#include "tokenizer/vocabulary.h"

namespace fathom::tokenizer {

// What one thread encodes with; kept from text to text.
struct BpeWorkspace {
  struct Unit {  // a byte or a character before any merge
    int32_t id;
    uint32_t begin;  // in the piece
  };
  struct Symbol {
    int32_t id;  // -1: joined into the symbol before it
    int32_t previous, next;
    uint32_t begin;
  };
  std::vector<Unit> units;
  std::vector<Symbol> symbols;       // of a long piece
  std::vector<uint64_t> candidates;  // heap of possible merges: rank and place
};

class Bpe {
 public:
  // model: of tokenizer.json. Throws Error naming `file` and key for what this one would do differently, and for a
  // vocabulary that would lose text.
  Bpe(const Json& model, const std::string& file, Vocabulary::Spelling spelling);

  // Appends the tokens of a piece of text, in n log n of its length, and where in it they begin, if begins is set. As
  // in Hugging Face's tokenizers, a character that is no token becomes the tokens of its bytes where the model has
  // byte_fallback, else the unknown token, of which several side by side are one where it has fuse_unk; what becomes
  // neither is dropped.
  void encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids,
              std::vector<int64_t>* begins = nullptr) const;
  // How many bytes of text a token stands for; nothing for the unknown token, which stands for any.
  std::optional<size_t> length(int32_t id) const {
    if (id == unknown_id_) return std::nullopt;
    return !is_fallback_.empty() && is_fallback_[id] ? 1 : vocabulary_.bytes(id).size();
  }
  // Whether a piece that is a token is that token, whatever the merges make of it.
  bool ignores_merges() const { return ignores_merges_; }
  // Whether merges join characters alone: neither the tokens of single bytes nor the unknown one.
  bool merges_characters_alone() const { return merges_characters_alone_; }
  const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void read_bytes(const std::string& file);
  void read_fallback(const Json& model, const std::string& file);
  void add_bytes(std::string_view piece, std::vector<BpeWorkspace::Unit>& units) const;
  void add_characters(std::string_view piece, std::vector<BpeWorkspace::Unit>& units) const;
  void add_unknown(uint32_t begin, uint32_t& waiting, std::vector<BpeWorkspace::Unit>& units) const;
  void add_waiting(uint32_t& waiting, std::vector<BpeWorkspace::Unit>& units) const;
  bool add_fallback(std::string_view character, uint32_t begin, std::vector<BpeWorkspace::Unit>& units) const;
  void merge_short(const std::vector<BpeWorkspace::Unit>& units, std::vector<int32_t>& ids,
                   std::vector<int64_t>* begins) const;
  void merge_long(BpeWorkspace& workspace, std::vector<int32_t>& ids, std::vector<int64_t>* begins) const;

  Vocabulary vocabulary_;
  MergeTable merges_;
  bool over_bytes_;
  std::array<int32_t, 256> byte_ids_{};  // of the bytes, or of "<0x41>" and its like; -1: there is none
  std::vector<bool> is_fallback_;        // by id: one of "<0x41>" and its like
  int32_t unknown_id_ = -1;              // -1: what is unknown is dropped
  bool fuses_unknown_ = false;
  bool has_fallback_ = false;
  bool ignores_merges_ = false;
  bool merges_characters_alone_ = true;
};

}  // namespace fathom::tokenizer
