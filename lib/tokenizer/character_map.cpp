// Walks the double array as Yata's darts-clone lays it out, and finds grapheme clusters by utf8proc's tables.
#include "tokenizer/character_map.h"

#include <utf8proc.h>

#include <cstring>

#include "base/error.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kLongestCluster = 5;  // bytes; longer ones go character by character
constexpr uint32_t kLeaf = uint32_t{1} << 31;

// A unit of the array: that of a leaf is a value, with the highest bit set; any other has the byte that leads to it,
// whether a key ends there, and the distance to the children.
bool ends_key(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t label(uint32_t unit) { return unit & (kLeaf | 0xFF); }
size_t distance(uint32_t unit) { return size_t{unit >> 10} << ((unit & uint32_t{1} << 9) >> 6); }

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

size_t cluster_end(std::string_view text, size_t at) {
  Character character = character_at(text.data() + at);
  utf8proc_int32_t state = 0;
  for (at += character.bytes; at < text.size(); at += character.bytes) {
    const auto before = static_cast<utf8proc_int32_t>(character.code);
    character = character_at(text.data() + at);
    if (utf8proc_grapheme_break_stateful(before, static_cast<utf8proc_int32_t>(character.code), &state)) break;
  }
  return at;
}

}  // namespace

CharacterMap::CharacterMap(std::string_view table, const std::string& where) : where_(where) {
  const size_t trie_bytes = table.size() < 4 ? 0 : number_at(table, 0);
  if (trie_bytes == 0 || trie_bytes % 4 != 0 || trie_bytes > table.size() - 4) {
    throw Error(where_ + ": expected the size of a trie, the trie and texts; there are " +
                std::to_string(table.size()) + " bytes");
  }
  for (size_t at = 4; at < 4 + trie_bytes; at += 4) units_.push_back(number_at(table, at));
  texts_ = table.substr(4 + trie_bytes);
  if (well_formed_prefix(texts_) < texts_.size()) throw Error(where_ + ": the texts are not UTF-8");
  for (const uint32_t unit : units_) {
    const size_t value = unit & ~kLeaf;
    if ((unit & kLeaf) != 0 && (value >= texts_.size() || (texts_[value] & 0xC0) == 0x80)) {
      throw Error(where_ + ": the trie points to no text");
    }
  }
  // Of ASCII, only a line feed is ever in one cluster with the ASCII character before it.
  for (size_t code = 0; code < kept_.size(); ++code) {
    const char character = static_cast<char>(code);
    kept_[code] = character != '\r' && !find({&character, 1});
  }
}

std::optional<std::string_view> CharacterMap::find(std::string_view text) const {
  size_t at = distance(units_[0]);
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    at ^= byte;
    if (byte == 0 || at >= units_.size() || label(units_[at]) != byte) return std::nullopt;
    const bool ends = ends_key(units_[at]);
    at ^= distance(units_[at]);
    if (!ends) continue;
    if (at >= units_.size() || (units_[at] & kLeaf) == 0) throw Error(where_ + ": a key of the trie has no value");
    return texts_.data() + (units_[at] & ~kLeaf);
  }
  return std::nullopt;
}

std::string CharacterMap::apply(std::string_view text, OffsetMap& origins, size_t most_bytes) const {
  std::string result;
  result.reserve(text.size());
  bool copying = false;
  // Appends what text[at, at + bytes) becomes.
  const auto append = [&](size_t at, size_t bytes, std::string_view content, bool copies) {
    // Hugging Face takes what stands behind characters that vanish at the beginning to be there itself.
    const bool moves = result.empty() && at > 0;
    if (moves || !copies) origins.rewritten(result.size(), moves ? 0 : at);
    if (copies && moves && bytes > 1) origins.copied(1, at + 1);
    if (copies && !moves && !copying) origins.copied(result.size(), at);
    copying = copies && (!moves || bytes > 1);
    result.append(content);
  };
  // Whether there is anything to put in its place.
  const auto replace = [&](size_t at, size_t bytes) {
    const auto replacement = find(text.substr(at, bytes));
    if (!replacement) return false;
    append(at, bytes, *replacement, bytes == 1 && replacement->size() == 1);
    if (result.size() > most_bytes) {
      throw Error(where_ + ": makes a text of " + std::to_string(text.size()) + " bytes too long");
    }
    return true;
  };
  const auto copy = [&](size_t at, size_t bytes) { append(at, bytes, text.substr(at, bytes), true); };
  const auto is_kept = [&](size_t at) { return static_cast<unsigned char>(text[at]) < 128 && kept_[text[at]]; };
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_kept(end)) ++end;
    if (end < text.size() && end > at && static_cast<unsigned char>(text[end]) >= 128) --end;  // may be in its cluster
    if (end > at) {
      copy(at, end - at);
      at = end;
      continue;
    }
    end = cluster_end(text, at);
    if (end - at > kLongestCluster || !replace(at, end - at)) {
      for (; at < end; at += character_at(text.data() + at).bytes) {
        const size_t bytes = character_at(text.data() + at).bytes;
        if (!replace(at, bytes)) copy(at, bytes);
      }
    }
    at = end;
  }
  return result;
}

}  // namespace fathom::tokenizer
