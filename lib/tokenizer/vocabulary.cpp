// Reads `vocab` into one string and a hash table, both sized once.
#include "tokenizer/vocabulary.h"

#include <bit>
#include <functional>

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/byte_alphabet.h"

namespace fathom::tokenizer {
namespace {

// Real vocabularies have few holes; ids beyond would let a small file ask for much memory.
constexpr size_t kIdsPerToken = 4;
constexpr size_t kFreeIds = 1024;

int32_t read_id(const Json& value, size_t limit, const std::string& where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= limit) {
    throw Error(where + ": expected an id below " + std::to_string(limit) + ", got " + value.dump().substr(0, 40));
  }
  return value.get<int32_t>();
}

// Slots looked at for one token beyond which the tokens must have been chosen to collide.
constexpr size_t kMostProbes = 1024;

size_t hash(std::string_view bytes) { return std::hash<std::string_view>{}(bytes); }

}  // namespace

std::optional<std::string> Vocabulary::spelled_bytes(std::string_view spelling) const {
  return spelling_ == Spelling::kCharacters ? std::string(spelling) : bytes_spelled_by(spelling);
}

Vocabulary::Vocabulary(const Json& tokens, std::string where, Spelling spelling)
    : where_(std::move(where)), spelling_(spelling) {
  if (!tokens.is_object() || tokens.empty()) throw Error(where_ + ": expected an object of tokens and their ids");
  const size_t limit = kIdsPerToken * tokens.size() + kFreeIds;
  size_t text_bytes = 0;
  for (const auto& [token, value] : tokens.items()) text_bytes += token.size();
  if (text_bytes > UINT32_MAX) throw Error(where_ + ": too large");
  text_.reserve(text_bytes);
  for (const auto& [token, value] : tokens.items()) {
    const int32_t id = read_id(value, limit, where_ + ": '" + token.substr(0, 40) + "'");
    if (static_cast<size_t>(id) >= entries_.size()) entries_.resize(size_t(id) + 1);
    Entry& entry = entries_[id];
    if (entry.kind != Kind::kAbsent) throw Error(where_ + ": two tokens have the id " + std::to_string(id));
    const std::optional<std::string> bytes = spelled_bytes(token);
    const std::string& text = bytes ? *bytes : token;
    entry = {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size()),
             bytes ? Kind::kBytes : Kind::kForeign};
    text_ += text;
  }
  slots_.assign(std::bit_ceil(2 * tokens.size()), -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (entries_[id].kind != Kind::kAbsent) insert(id);
  }
}

void Vocabulary::insert(int32_t id) {
  const size_t mask = slots_.size() - 1;
  size_t at = hash(bytes(id)) & mask;
  for (size_t probes = 0; slots_[at] >= 0; at = (at + 1) & mask) {
    if (++probes > kMostProbes) throw Error(where_ + ": the tokens collide in the table of the vocabulary");
  }
  slots_[at] = id;
}

std::optional<int32_t> Vocabulary::find(std::string_view wanted, Kind kind) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash(wanted) & mask; slots_[at] >= 0; at = (at + 1) & mask) {
    if (entries_[slots_[at]].kind == kind && bytes(slots_[at]) == wanted) return slots_[at];
  }
  return std::nullopt;
}

std::optional<int32_t> Vocabulary::find_spelling(std::string_view spelling) const {
  const std::optional<std::string> bytes = spelled_bytes(spelling);
  return bytes ? find(*bytes, Kind::kBytes) : find(spelling, Kind::kForeign);
}

std::string Vocabulary::spelling(int32_t id) const {
  const std::string_view stored = bytes(id);
  return entries_[id].kind == Kind::kBytes && spelling_ == Spelling::kBytes ? spelling_of(stored) : std::string(stored);
}

}  // namespace fathom::tokenizer
