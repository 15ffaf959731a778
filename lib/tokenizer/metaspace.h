// Words of SentencePiece's kind: blanks become "▁", and each word begins with one, as tokenizer.json's Metaspace says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/offset_map.h"
#include "tokenizer/regex.h"

namespace fathom::tokenizer {

inline constexpr std::string_view kBlankMark = "\xe2\x96\x81";  // "▁" U+2581

// {"type": "Metaspace", …} of a pre_tokenizer or a decoder.
struct Metaspace {
  enum class Prepends { kAlways, kFirst, kNever };
  Prepends prepends = Prepends::kAlways;  // a mark: to every stretch, to the one at the text's beginning, to none
  bool splits = true;                     // before each mark
};
Metaspace read_metaspace(const Json& part, const std::string& where);

// Metaspace, which may stand behind WhitespaceSplit.
class MarkedWords {
 public:
  // T5's: both, at every stretch.
  MarkedWords() : splits_at_white_space_(true) {}
  // Throws Error naming `file` and key for another pre_tokenizer.
  MarkedWords(const Json& pre_tokenizer, const std::string& file);

  // marked: the text, which is well-formed, with its marks; words: stretches of it. origins, if set, learns where its
  // bytes came from; a mark that was put in comes from where its word begins.
  void split(std::string_view text, bool at_start, std::string& marked, std::vector<Piece>& words,
             OffsetMap* origins) const;

 private:
  void read(const Json& part, const std::string& where);
  void append(std::string_view text, size_t begin, size_t end, bool at_start, std::string& marked,
              std::vector<Piece>& words, OffsetMap* origins) const;

  bool splits_at_white_space_ = false;
  bool has_metaspace_ = false;
  Metaspace metaspace_;
};

}  // namespace fathom::tokenizer
