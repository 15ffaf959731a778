// The tokens of words seen lately, so that a text's common words cost one look-up.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "tokenizer/regex.h"

namespace fathom::tokenizer {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 24;  // bytes
  static constexpr size_t kMostTokens = 25;   // at least one byte each; nine are in the first of two cache lines

  struct Word {
    uint64_t bytes[3] = {};  // zeros behind the end
    uint32_t length = 0;

    // word_length: not 0. readable: bytes from `text` on that may be looked at, at least word_length.
    Word(const char* text, size_t word_length, size_t readable) : length(static_cast<uint32_t>(word_length)) {
      if (readable < sizeof bytes) {
        std::memcpy(bytes, text, word_length);
        return;
      }
      std::memcpy(bytes, text, sizeof bytes);
      for (size_t i = 0; i < 3; ++i) {
        const size_t kept = word_length < 8 * i ? 0 : word_length - 8 * i;
        if (kept < 8) bytes[i] &= (uint64_t{1} << 8 * kept) - 1;
      }
    }
    uint64_t hash() const {
      uint64_t mixed = (bytes[0] + length) * 0x9E3779B97F4A7C15 ^ (bytes[1] + 0xD6E8FEB86659FD93) * 0xA0761D6478BD642F ^
                       bytes[2] * 0xE7037ED1A0B428DB;
      mixed ^= mixed >> 32;
      return mixed * 0x9E3779B97F4A7C15;
    }
  };

  struct alignas(64) Entry {
    uint64_t bytes[3];
    uint16_t length, count;  // length 0: empty
    int32_t ids[kMostTokens];

    bool holds(const Word& word) const {
      return length == word.length && bytes[0] == word.bytes[0] && bytes[1] == word.bytes[1] &&
             bytes[2] == word.bytes[2];
    }
  };
  static_assert(sizeof(Entry) == 128 && kMostTokens >= kLongestWord);

  // Null: not there. Holds until the next store.
  const Entry* find(const Word& word) const {
    for (const Entry& entry : sets_[set_of(word)]) {
      if (entry.holds(word)) return &entry;
    }
    return nullptr;
  }

  // Of the words in its set, the one stored first gives way. count: at most kMostTokens.
  void store(const Word& word, const int32_t* ids, size_t count) {
    Set& set = sets_[set_of(word)];
    std::move_backward(set.begin(), set.end() - 1, set.end());
    Entry& entry = set.front();
    std::memcpy(entry.bytes, word.bytes, sizeof entry.bytes);
    entry.length = static_cast<uint16_t>(word.length);
    entry.count = static_cast<uint16_t>(count);
    std::copy_n(ids, count, entry.ids);
  }

 private:
  using Set = std::array<Entry, 4>;
  static constexpr int kSetBits = 13;  // 4 MiB

  static size_t set_of(const Word& word) { return word.hash() >> (64 - kSetBits); }

  std::vector<Set> sets_ = std::vector<Set>(size_t{1} << kSetBits);
};

// Appends the tokens of a piece of text: encode(piece) appends them where the cache does not have them.
template <typename Encode>
void encode_piece(std::string_view text, Piece piece, WordCache& cache, std::vector<int32_t>& ids,
                  const Encode& encode) {
  const size_t length = piece.end - piece.begin;
  if (length > WordCache::kLongestWord) return encode(text.substr(piece.begin, length));
  const WordCache::Word word(text.data() + piece.begin, length, text.size() - piece.begin);
  if (const WordCache::Entry* known = cache.find(word)) {
    ids.insert(ids.end(), known->ids, known->ids + known->count);
    return;
  }
  const size_t before = ids.size();
  encode(text.substr(piece.begin, length));
  cache.store(word, ids.data() + before, ids.size() - before);
}

// The same of several, one after the other.
template <typename Encode>
void encode_pieces(std::string_view text, const std::vector<Piece>& pieces, WordCache& cache, std::vector<int32_t>& ids,
                   const Encode& encode) {
  for (const Piece& piece : pieces) encode_piece(text, piece, cache, ids, encode);
}

}  // namespace fathom::tokenizer
