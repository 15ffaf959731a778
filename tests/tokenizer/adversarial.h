// Strings made by chance to trip tokenizers up: the generator of scripts/golden/tokenizer_json.py, draw by draw.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_value.h"
#include "base/split_mix.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {

inline constexpr uint64_t kHashStart = 0xCBF29CE484222325;  // FNV-1a

inline uint64_t fnv(std::string_view bytes, uint64_t value = kHashStart) {
  for (const char byte : bytes) value = (value ^ static_cast<unsigned char>(byte)) * 0x100000001B3;
  return value;
}

inline uint64_t hash_of(const std::vector<int32_t>& ids) {
  return fnv({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t)});
}

class Adversarial {
 public:
  Adversarial() : groups_(read_json(std::string(FATHOM_SOURCE_DIR) + "/tests/tokenizer/adversarial.json")) {
    for (const Json& group : groups_["texts"]) texts_.push_back(group.get<std::vector<std::string>>());
    for (const Json& group : groups_["codes"])
      codes_.push_back(group.get<std::vector<std::pair<uint32_t, uint32_t>>>());
  }

  // Bytes; one in eight strings is damaged and may not be UTF-8.
  std::string make(uint64_t index) const {
    SplitMix64 draw(20261121 + index);
    std::string result;
    for (uint64_t parts = 1 + draw.below(24); parts > 0; --parts) {
      const std::string part = make_part(draw);
      const uint64_t times = draw.below(8) == 0 ? 1 + draw.below(12) : 1;
      for (uint64_t i = 0; i < times; ++i) result += part;
    }
    if (draw.below(8) == 0) {
      for (uint64_t times = 1 + draw.below(3); times > 0; --times) {
        const uint64_t place = draw.below(result.size());
        result[place] = static_cast<char>(static_cast<unsigned char>(draw.below(256)));
      }
    }
    return result;
  }

 private:
  std::string make_part(SplitMix64& draw) const {
    const uint64_t group = draw.below(texts_.size() + codes_.size());
    if (group < texts_.size()) return texts_[group][draw.below(texts_[group].size())];
    const auto& ranges = codes_[group - texts_.size()];
    const auto [first, last] = ranges[draw.below(ranges.size())];
    std::string part;
    append_character(part, static_cast<char32_t>(first + draw.below(last - first + 1)));
    return part;
  }

  Json groups_;
  std::vector<std::vector<std::string>> texts_;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> codes_;
};

// The JSON text with one to three places cut out, repeated or overwritten.
inline std::string damaged_json(std::string text, SplitMix64& draw) {
  for (uint64_t times = 1 + draw.below(3); times > 0; --times) {
    const uint64_t at = draw.below(text.size()), length = draw.below(12);
    static const std::string kLetters = "{}[],:\"0123456789-.eE truefalsn\\u\xC4\x80";
    if (draw.below(3) == 0)
      text.erase(at, length);
    else if (draw.below(2) == 0)
      text.insert(at, text.substr(draw.below(text.size()), length));
    else
      text[at] = kLetters[draw.below(kLetters.size())];
  }
  return text;
}

}  // namespace fathom::tokenizer
