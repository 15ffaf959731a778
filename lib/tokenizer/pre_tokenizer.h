// A text into the pieces that byte-pair encoding never joins, as tokenizer.json's pre_tokenizer says.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/known_patterns.h"
#include "tokenizer/regex.h"

namespace fathom::tokenizer {

// A chain of splits, which ends in ByteLevel for models over bytes. A pattern whose text is known goes by hand, any
// other by Oniguruma.
class PreTokenizer {
 public:
  enum class Ends { kInBytes, kInText };
  // Throws Error naming `file` and key for what is not supported.
  PreTokenizer(const Json& pre_tokenizer, const std::string& file, Ends ends = Ends::kInBytes);

  // Pieces of text, in order; stretches that a split removes are in none. `scratch` is overwritten. budget: of the
  // patterns that go by Oniguruma.
  void split(std::string_view text, std::vector<Piece>& pieces, std::vector<Piece>& scratch, MatchBudget& budget) const;
  // Whether a blank is put before a text that does not begin with one.
  bool adds_prefix_space() const { return adds_prefix_space_; }
  // The patterns of the splits, in order; nothing where a split removes text.
  std::optional<std::vector<std::string>> patterns() const;

 private:
  enum class Kept {
    kAll,
    kMatches,
    kGaps,
    kWithPrevious,  // a match ends the piece before it, unless that was a match
    kWithNext,      // or begins the piece behind it
    kRuns           // matches side by side are one piece
  };
  struct Split {
    std::string pattern;
    std::optional<KnownPattern> known;
    std::optional<Regex> regex;  // where the pattern is not known
    Kept kept = Kept::kAll;
  };
  void read(const Json& part, const std::string& where);
  void read_split(const Json& part, const std::string& where);
  void read_byte_level(const Json& part, const std::string& where);
  void add(std::string pattern, Kept kept, const std::string& where);
  static Kept read_kept(const Json& part, bool inverted, const std::string& where);
  void apply(const Split& split, std::string_view text, Piece range, std::vector<Piece>& pieces,
             MatchBudget& budget) const;

  Ends ends_;
  std::vector<Split> splits_;
  bool ends_in_bytes_ = false;
  bool adds_prefix_space_ = false;
};

}  // namespace fathom::tokenizer
