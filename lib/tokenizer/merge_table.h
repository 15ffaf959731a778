// The merges of a byte-pair encoding: which two tokens join into which, and in what order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/vocabulary.h"

namespace fathom::tokenizer {

struct Merge {
  static constexpr uint32_t kNoRank = UINT32_MAX;
  uint32_t rank = kNoRank;  // lower is earlier
  int32_t id = -1;          // of the joined token
};

class MergeTable {
 public:
  struct Pair {
    int32_t left, right;
  };

  // merges: of tokenizer.json, ["a b", …] or [["a", "b"], …]. Throws Error naming the entry for one whose parts, or
  // whose result, the vocabulary does not have.
  MergeTable(const Json& merges, const Vocabulary& vocabulary, const std::string& where);

  // What the two join into; kNoRank where they do not.
  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      if (slots_[at].key == key) return slots_[at].merge;
      if (slots_[at].key == kEmpty) return {};
    }
  }
  size_t size() const { return pairs_.size(); }
  Pair pair(uint32_t rank) const { return pairs_[rank]; }

 private:
  static constexpr uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t key_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    key *= 0x9E3779B97F4A7C15;
    return (key ^ key >> 32) & mask_;
  }
  // Returns how many slots it looked at.
  size_t insert(Pair pair, Merge merge);

  std::vector<Pair> pairs_;  // by rank
  std::vector<Slot> slots_;  // open addressing, at most half full
  size_t mask_ = 0;
};

}  // namespace fathom::tokenizer
