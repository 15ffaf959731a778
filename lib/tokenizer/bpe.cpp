// Always the pair of the lowest rank, the leftmost of equals: by scanning in short pieces, by a heap in long ones.
#include "tokenizer/bpe.h"

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/error.h"
#include "base/json_value.h"
#include "base/log.h"
#include "tokenizer/json_part.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

using Unit = BpeWorkspace::Unit;

constexpr size_t kShortPiece = 40;         // units up to which scanning beats the heap
constexpr size_t kLongestPiece = 1 << 24;  // bytes, each of which takes up to 45 of memory
constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kKeptSymbols = 1 << 14;  // a workspace that grew beyond gives its memory back

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
  return model;
}

// UTF-8 has no byte that is one of C0, C1, F5 to FF.
bool is_in_utf8(int byte) { return byte < 0xC0 || (byte > 0xC1 && byte < 0xF5); }

std::string hexadecimal(int byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02X", static_cast<unsigned>(byte));
  return text;
}

}  // namespace

Bpe::Bpe(const Json& model, const std::string& file, Vocabulary::Spelling spelling)
    : vocabulary_(member(checked(model, file), "vocab"), file + ": model.vocab", spelling),
      merges_(member(model, "merges"), vocabulary_, file + ": model.merges"),
      over_bytes_(spelling == Vocabulary::Spelling::kBytes),
      fuses_unknown_(read_flag(model, "fuse_unk", false, file + ": model")),
      ignores_merges_(read_flag(model, "ignore_merges", false, file + ": model")) {
  byte_ids_.fill(-1);
  if (const Json& unknown = member(model, "unk_token"); is_set(unknown)) {
    const std::string text = read_text(model, "unk_token", file + ": model");
    // With all bytes there, nothing is unknown, and files name tokens that are added later.
    const std::optional<int32_t> id = vocabulary_.find_spelling(text);
    if (!id && !over_bytes_) {
      throw Error(file + ": model.unk_token: '" + text.substr(0, 80) + "' is not in the vocabulary");
    }
    if (id) unknown_id_ = *id;
  }
  if (over_bytes_) {
    read_bytes(file);
  } else {
    read_fallback(model, file);
  }
}

// A byte without a token is dropped, as in Hugging Face's tokenizers. Of those that UTF-8 has, only the first bytes of
// planes without a letter of any language may be missing (F1 to F4).
void Bpe::read_bytes(const std::string& file) {
  std::string rare, lost;
  for (int value = 0; value < 256; ++value) {
    const char byte = static_cast<char>(static_cast<unsigned char>(value));
    byte_ids_[value] = vocabulary_.find({&byte, 1}).value_or(-1);
    if (byte_ids_[value] >= 0 || !is_in_utf8(value)) continue;
    std::string& list = value >= 0xF1 ? rare : lost;
    list += (list.empty() ? "" : ", ") + hexadecimal(value);
  }
  if (!lost.empty()) {
    throw Error(file + ": model.vocab: has no token for the byte " + lost.substr(0, 80) +
                    (lost.size() > 80 ? "…" : "") + ", so that text would be lost",
                "a byte-level vocabulary has a token for every byte of UTF-8 but F1 to F4");
  }
  if (rare.empty()) return;
  log_warning(file + ": model.vocab: has no token for the byte " + rare + ": it is " +
              (unknown_id_ < 0 ? "left out of" : "unknown in") + " texts with characters from U+40000 on");
}

void Bpe::read_fallback(const Json& model, const std::string& file) {
  has_fallback_ = read_flag(model, "byte_fallback", false, file + ": model");
  bool falls_always = has_fallback_;
  if (has_fallback_) is_fallback_.resize(static_cast<size_t>(vocabulary_.size()));
  for (int value = 0; has_fallback_ && value < 256; ++value) {
    byte_ids_[value] = vocabulary_.find("<" + hexadecimal(value) + ">").value_or(-1);
    if (byte_ids_[value] >= 0) is_fallback_[byte_ids_[value]] = true;
    falls_always &= byte_ids_[value] >= 0 || !is_in_utf8(value);
  }
  if (!falls_always && unknown_id_ < 0) {
    throw Error(file + ": model: a character that is no token would be lost: there is no unk_token, and " +
                    (has_fallback_ ? "byte_fallback lacks tokens for bytes" : "no byte_fallback"),
                "name an unk_token of the vocabulary");
  }
  const auto is_odd = [&](int32_t id) {
    return id == unknown_id_ || (has_fallback_ && is_fallback_[static_cast<size_t>(id)]);
  };
  for (uint32_t rank = 0; rank < merges_.size(); ++rank) {
    const MergeTable::Pair pair = merges_.pair(rank);
    if (is_odd(pair.left) || is_odd(pair.right) || is_odd(merges_.find(pair.left, pair.right).id)) {
      merges_characters_alone_ = false;
    }
  }
}

// waiting: where an unknown character begins that is not among the units yet.
void Bpe::add_unknown(uint32_t begin, uint32_t& waiting, std::vector<Unit>& units) const {
  if (unknown_id_ < 0 || (waiting != kNone && fuses_unknown_)) return;
  add_waiting(waiting, units);
  waiting = begin;
}

void Bpe::add_waiting(uint32_t& waiting, std::vector<Unit>& units) const {
  if (waiting != kNone) units.push_back({unknown_id_, waiting});
  waiting = kNone;
}

void Bpe::add_bytes(std::string_view piece, std::vector<Unit>& units) const {
  uint32_t unknown = kNone;
  for (uint32_t at = 0; at < piece.size(); ++at) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(piece[at])];
    if (id < 0) {
      add_unknown(at, unknown, units);
      continue;
    }
    add_waiting(unknown, units);
    units.push_back({id, at});
  }
  add_waiting(unknown, units);
}

bool Bpe::add_fallback(std::string_view character, uint32_t begin, std::vector<Unit>& units) const {
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool whole = std::all_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) >= 0; });
  if (!has_fallback_ || !whole) return false;
  for (const char byte : character) units.push_back({id_of(byte), begin++});
  return true;
}

// An unknown token waits for the next character that is a token: bytes come before it, as in Hugging Face's tokenizers.
void Bpe::add_characters(std::string_view piece, std::vector<Unit>& units) const {
  uint32_t unknown = kNone;
  for (uint32_t at = 0; at < piece.size();) {
    const std::string_view character = piece.substr(at, character_at(piece.data() + at).bytes);
    if (const std::optional<int32_t> id = vocabulary_.find(character)) {
      add_waiting(unknown, units);
      units.push_back({*id, at});
    } else if (!add_fallback(character, at, units)) {
      add_unknown(at, unknown, units);
    }
    at += static_cast<uint32_t>(character.size());
  }
  add_waiting(unknown, units);
}

void Bpe::encode(std::string_view piece, BpeWorkspace& workspace, std::vector<int32_t>& ids,
                 std::vector<int64_t>* begins) const {
  if (const auto id = ignores_merges_ ? vocabulary_.find(piece) : std::nullopt) {
    ids.push_back(*id);
    if (begins != nullptr) begins->push_back(0);
    return;
  }
  if (piece.size() > kLongestPiece) {
    throw Error("a stretch of " + std::to_string(piece.size()) + " bytes without a border is too long to tokenize",
                "write it in several lines");
  }
  workspace.units.clear();
  over_bytes_ ? add_bytes(piece, workspace.units) : add_characters(piece, workspace.units);
  if (workspace.units.size() <= kShortPiece) {
    merge_short(workspace.units, ids, begins);
  } else {
    merge_long(workspace, ids, begins);
  }
}

void Bpe::merge_short(const std::vector<Unit>& units, std::vector<int32_t>& ids, std::vector<int64_t>* begins) const {
  struct Part {
    int32_t token;
    uint32_t begin;
    Merge merge;  // with the next part
  };
  Part parts[kShortPiece];
  size_t count = units.size();
  for (size_t i = 0; i < count; ++i) {
    parts[i].token = units[i].id;
    parts[i].begin = units[i].begin;
  }
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
  if (begins == nullptr) return;
  for (size_t i = 0; i < count; ++i) begins->push_back(parts[i].begin);
}

void Bpe::merge_long(BpeWorkspace& workspace, std::vector<int32_t>& ids, std::vector<int64_t>* begins) const {
  auto& symbols = workspace.symbols;
  auto& candidates = workspace.candidates;  // rank << 32 | place: the lowest rank first, then the leftmost
  const auto count = static_cast<int32_t>(workspace.units.size());
  symbols.clear();
  candidates.clear();
  for (int32_t i = 0; i < count; ++i) {
    const Unit unit = workspace.units[static_cast<size_t>(i)];
    symbols.push_back({unit.id, i - 1, i + 1 < count ? i + 1 : -1, unit.begin});
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
  for (int32_t at = 0; at >= 0; at = symbols[at].next) {
    ids.push_back(symbols[at].id);
    if (begins != nullptr) begins->push_back(symbols[at].begin);
  }
  if (symbols.size() > kKeptSymbols) workspace = {};
}

}  // namespace fathom::tokenizer
