// Always the pair of the lowest rank, the leftmost of equals: by scanning in short pieces, by a heap in long ones.
#include "tokenizer/byte_level_bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "tokenizer/json_part.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kShortPiece = 40;         // bytes up to which scanning beats the heap
constexpr size_t kLongestPiece = 1 << 24;  // bytes, each of which takes up to 33 of memory
constexpr size_t kKeptSymbols = 1 << 14;   // a workspace that grew beyond gives its memory back

const Json& member(const Json& model, const char* key) {
  static const Json kNull;
  const Json* value = find_key(model, key);
  return value == nullptr ? kNull : *value;
}

bool is_set(const Json& value) {
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.is_null() && value != false && !(value.is_number() && value == 0);
}

// Keys of model that would change the ids, checked before the vocabulary is read.
const Json& checked(const Json& model, const std::string& file) {
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    if (is_set(member(model, key))) {
      throw Error(file + ": model." + key + ": " + member(model, key).dump().substr(0, 80) + " is not supported");
    }
  }
  const Json& ignores_merges = member(model, "ignore_merges");
  if (!ignores_merges.is_null() && !ignores_merges.is_boolean()) {
    throw Error(file + ": model.ignore_merges: expected true or false");
  }
  return model;
}

}  // namespace

ByteLevelBpe::ByteLevelBpe(const Json& model, const std::string& file)
    : vocabulary_(member(checked(model, file), "vocab"), file + ": model.vocab"),
      merges_(member(model, "merges"), vocabulary_, file + ": model.merges"),
      ignores_merges_(is_set(member(model, "ignore_merges"))) {
  // With all bytes there, nothing is unknown: unk_token, fuse_unk and byte_fallback never come to bear.
  for (int value = 0; value < 256; ++value) {
    const char byte = static_cast<char>(static_cast<unsigned char>(value));
    const std::optional<int32_t> id = vocabulary_.find({&byte, 1});
    if (!id) {
      throw Error(file + ": model.vocab: has no token for the byte " + std::to_string(value),
                  "byte-level vocabularies have all 256; others are not supported");
    }
    byte_ids_[value] = *id;
  }
}

void ByteLevelBpe::encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const {
  if (ignores_merges_) {
    if (const std::optional<int32_t> id = vocabulary_.find(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  if (piece.size() <= kShortPiece) {
    merge_short(piece, ids);
  } else {
    merge_long(piece, workspace, ids);
  }
}

void ByteLevelBpe::merge_short(std::string_view piece, std::vector<int32_t>& ids) const {
  struct Part {
    int32_t token;
    Merge merge;  // with the next part
  };
  Part parts[kShortPiece];
  size_t count = piece.size();
  for (size_t i = 0; i < count; ++i) parts[i].token = byte_ids_[static_cast<unsigned char>(piece[i])];
  auto look_up = [&](size_t at) {
    parts[at].merge = at + 1 < count ? merges_.find(parts[at].token, parts[at + 1].token) : Merge{};
  };
  for (size_t i = 0; i < count; ++i) look_up(i);
  while (true) {
    uint64_t lowest = UINT64_MAX;  // rank and place in one number, whose minimum takes no branches
    for (size_t i = 0; i < count; ++i) lowest = std::min(lowest, uint64_t{parts[i].merge.rank} << 32 | i);
    if (lowest >> 32 == Merge::kNoRank) break;
    const size_t at = lowest & UINT32_MAX;
    parts[at].token = parts[at].merge.id;
    --count;
    for (size_t i = at + 1; i < count; ++i) parts[i] = parts[i + 1];
    look_up(at);
    if (at > 0) look_up(at - 1);
  }
  for (size_t i = 0; i < count; ++i) ids.push_back(parts[i].token);
}

void ByteLevelBpe::merge_long(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids) const {
  if (piece.size() > kLongestPiece) {
    throw Error("a stretch of " + std::to_string(piece.size()) + " bytes without a border is too long to tokenize",
                "write it in several lines");
  }
  auto& symbols = workspace.symbols;
  auto& candidates = workspace.candidates;  // rank << 32 | place: the lowest rank first, then the leftmost
  const auto count = static_cast<int32_t>(piece.size());
  symbols.clear();
  candidates.clear();
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({byte_ids_[static_cast<unsigned char>(piece[i])], i - 1, i + 1 < count ? i + 1 : -1});
  }
  auto candidate = [&](int32_t at) {
    const Merge merge = merges_.find(symbols[at].id, symbols[symbols[at].next].id);
    if (merge.rank == Merge::kNoRank) return false;
    candidates.push_back(uint64_t{merge.rank} << 32 | static_cast<uint32_t>(at));
    return true;
  };
  auto offer = [&](int32_t at) {
    if (candidate(at)) std::push_heap(candidates.begin(), candidates.end(), std::greater<>());
  };
  for (int32_t i = 0; i + 1 < count; ++i) candidate(i);
  std::make_heap(candidates.begin(), candidates.end(), std::greater<>());
  while (!candidates.empty()) {
    std::pop_heap(candidates.begin(), candidates.end(), std::greater<>());
    const auto at = static_cast<int32_t>(candidates.back() & UINT32_MAX);
    const MergeTable::Pair pair = merges_.pair(static_cast<uint32_t>(candidates.back() >> 32));
    candidates.pop_back();
    BpeWorkspace::Symbol& left = symbols[at];
    // Either side may have been joined with another since.
    if (left.id != pair.left || left.next < 0 || symbols[left.next].id != pair.right) continue;
    BpeWorkspace::Symbol& right = symbols[left.next];
    left.id = merges_.find(pair.left, pair.right).id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) {
      symbols[left.next].previous = at;
      offer(at);
    }
    if (left.previous >= 0) offer(left.previous);
  }
  for (int32_t at = 0; at >= 0; at = symbols[at].next) ids.push_back(symbols[at].id);
  if (symbols.size() > kKeptSymbols) {
    symbols = {};
    candidates = {};
  }
}

}  // namespace fathom::tokenizer
