// Reads ByteLevel, Split, Digits, Punctuation and Sequence into one chain of splits, and plays it.
#include "tokenizer/pre_tokenizer.h"

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/json_part.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kMostSplits = 32;
// What Hugging Face's Punctuation takes for such: Unicode's, and ASCII's signs.
constexpr const char* kPunctuation = R"([\p{P}!-/:-@\[-`{-~])";

}  // namespace

PreTokenizer::PreTokenizer(const Json& pre_tokenizer, const std::string& file, Ends ends) : ends_(ends) {
  read(pre_tokenizer, file + ": pre_tokenizer");
  if (ends == Ends::kInBytes && !ends_in_bytes_) {
    throw Error(file + ": pre_tokenizer: does not end in ByteLevel",
                "a byte-level tokenizer, which its decoder ByteLevel asks for, needs it");
  }
}

void PreTokenizer::read(const Json& part, const std::string& where) {
  if (!part.is_object()) throw Error(where + ": expected an object");
  if (ends_in_bytes_) throw Error(where + ": nothing may follow ByteLevel");
  const std::string type = read_text(part, "type", where);
  if (type == "Sequence") {
    const Json& parts = list_of(part, "pretokenizers", where);
    for (size_t i = 0; i < parts.size(); ++i) {
      read(parts[i], where + ".pretokenizers[" + std::to_string(i) + "]");
    }
  } else if (type == "ByteLevel" && ends_ == Ends::kInBytes) {
    read_byte_level(part, where);
  } else if (type == "Split") {
    read_split(part, where);
  } else if (type == "Digits") {
    add(read_flag(part, "individual_digits", false, where) ? R"(\p{N})" : R"(\p{N}+)", Kept::kAll, where);
  } else if (type == "Punctuation") {
    add(kPunctuation, find_key(part, "behavior") == nullptr ? Kept::kAll : read_kept(part, false, where), where);
  } else {
    reject_type(where, type,
                std::string("Sequence, Split, Digits, Punctuation, ") +
                    (ends_ == Ends::kInBytes ? "ByteLevel" : "Metaspace alone, none"));
  }
}

void PreTokenizer::read_byte_level(const Json& part, const std::string& where) {
  adds_prefix_space_ = read_flag(part, "add_prefix_space", true, where);
  if (adds_prefix_space_ && !splits_.empty()) {
    throw Error(where + ".add_prefix_space: is not supported behind another split");
  }
  if (read_flag(part, "use_regex", true, where)) {
    add(std::string(text_of(KnownPattern::kGpt2)), Kept::kAll, where);
  }
  ends_in_bytes_ = true;
}

// inverted: what lies between the matches is split off.
PreTokenizer::Kept PreTokenizer::read_kept(const Json& part, bool inverted, const std::string& where) {
  const std::string behavior = read_text(part, "behavior", where);
  if (behavior == "Isolated") return Kept::kAll;
  if (behavior == "Removed") return inverted ? Kept::kMatches : Kept::kGaps;
  if (behavior == "MergedWithPrevious" && !inverted) return Kept::kWithPrevious;
  if (behavior == "MergedWithNext" && !inverted) return Kept::kWithNext;
  if (behavior == "Contiguous") return Kept::kRuns;
  throw Error(
      where + ".behavior: '" + behavior.substr(0, 80) + "'" + (inverted ? " with invert" : "") + " is not supported",
      inverted ? "those that are: Isolated, Removed, Contiguous"
               : "those that are: Isolated, Removed, MergedWithPrevious, MergedWithNext, Contiguous");
}

void PreTokenizer::read_split(const Json& part, const std::string& where) {
  const Kept kept = read_kept(part, read_flag(part, "invert", false, where), where);
  add(read_pattern(part, where), kept, where);
}

void PreTokenizer::add(std::string pattern, Kept kept, const std::string& where) {
  if (splits_.size() == kMostSplits) {
    throw Error(where + ": more than " + std::to_string(kMostSplits) + " splits are not supported");
  }
  Split& split = splits_.emplace_back();
  split.pattern = pattern;
  split.kept = kept;
  // By hand there are no gaps, so that keeping all and keeping the matches is the same.
  if (kept == Kept::kAll || kept == Kept::kMatches) split.known = find_known_pattern(pattern);
  if (!split.known) split.regex.emplace(std::move(pattern), where);
}

std::optional<std::vector<std::string>> PreTokenizer::patterns() const {
  std::vector<std::string> patterns;
  for (const Split& split : splits_) {
    if (!split.known && split.kept != Kept::kAll) return std::nullopt;
    patterns.push_back(split.pattern);
  }
  return patterns;
}

void PreTokenizer::apply(const Split& split, std::string_view text, Piece range, std::vector<Piece>& pieces,
                         MatchBudget& budget) const {
  if (split.known) return split_by(*split.known, text, range, pieces);
  std::vector<Piece> matches;
  split.regex->find_all(text.substr(range.begin, range.end - range.begin), matches, budget);
  const size_t before = pieces.size();
  std::optional<Kept> last;  // of the stretch before
  auto keep = [&](size_t begin, size_t end, Kept kind) {
    if (begin == end) return;
    const bool joins_last = last && ((split.kept == Kept::kWithPrevious && kind == Kept::kMatches && *last != kind) ||
                                     (split.kept == Kept::kWithNext && kind == Kept::kGaps && *last != kind) ||
                                     (split.kept == Kept::kRuns && *last == kind));
    last = kind;
    if ((split.kept == Kept::kMatches || split.kept == Kept::kGaps) && split.kept != kind) return;
    if (joins_last && pieces.size() > before) {
      pieces.back().end = end;
    } else {
      pieces.push_back({begin, end});
    }
  };
  size_t done = range.begin;
  for (const Piece& match : matches) {
    keep(done, range.begin + match.begin, Kept::kGaps);
    keep(range.begin + match.begin, range.begin + match.end, Kept::kMatches);
    done = range.begin + match.end;
  }
  keep(done, range.end, Kept::kGaps);
}

void PreTokenizer::split(std::string_view text, std::vector<Piece>& pieces, std::vector<Piece>& scratch,
                         MatchBudget& budget) const {
  pieces.clear();
  if (!text.empty()) pieces.push_back({0, text.size()});
  for (const Split& split : splits_) {
    pieces.swap(scratch);
    pieces.clear();
    for (const Piece& piece : scratch) apply(split, text, piece, pieces, budget);
  }
}

}  // namespace fathom::tokenizer
