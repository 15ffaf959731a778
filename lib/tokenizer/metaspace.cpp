// Reads Metaspace, WhitespaceSplit and Sequence, and writes the marked text.
#include "tokenizer/metaspace.h"

#include "base/error.h"
#include "base/json_value.h"
#include "tokenizer/character_classes.h"
#include "tokenizer/json_part.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {

Metaspace read_metaspace(const Json& part, const std::string& where) {
  if (read_text(part, "replacement", where) != kBlankMark) {
    throw Error(where + ".replacement: is not supported", "the one that is: " + std::string(kBlankMark));
  }
  Metaspace result;
  result.splits = read_flag(part, "split", true, where);
  const bool adds_blank = read_flag(part, "add_prefix_space", true, where);  // the older key
  if (!adds_blank) result.prepends = Metaspace::Prepends::kNever;
  if (find_key(part, "prepend_scheme") == nullptr) return result;
  const std::string scheme = read_text(part, "prepend_scheme", where);
  if (scheme == "never") {
    result.prepends = Metaspace::Prepends::kNever;
  } else if (!adds_blank) {
    throw Error(where + ".add_prefix_space: contradicts prepend_scheme '" + scheme.substr(0, 80) + "'");
  } else if (scheme == "first") {
    result.prepends = Metaspace::Prepends::kFirst;
  } else if (scheme != "always") {
    throw Error(where + ".prepend_scheme: '" + scheme.substr(0, 80) + "' is not supported",
                "those that are: always, first, never");
  }
  return result;
}

MarkedWords::MarkedWords(const Json& pre_tokenizer, const std::string& file) {
  const std::string where = file + ": pre_tokenizer";
  read(pre_tokenizer, where);
  if (!has_metaspace_) throw Error(where + ": does not end in Metaspace", "a model of SentencePiece's kind needs it");
}

void MarkedWords::read(const Json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (has_metaspace_) throw Error(where + ": nothing may follow Metaspace");
  if (type == "Sequence") {
    const Json& parts = list_of(part, "pretokenizers", where);
    for (size_t i = 0; i < parts.size(); ++i) read(parts[i], where + ".pretokenizers[" + std::to_string(i) + "]");
  } else if (type == "WhitespaceSplit") {
    splits_at_white_space_ = true;
  } else if (type == "Metaspace") {
    metaspace_ = read_metaspace(part, where);
    has_metaspace_ = true;
    if (splits_at_white_space_ && metaspace_.prepends == Metaspace::Prepends::kFirst) {
      throw Error(where + ".prepend_scheme: 'first' is not supported behind WhitespaceSplit");
    }
  } else {
    reject_type(where, type, "Sequence, WhitespaceSplit, Metaspace");
  }
}

void MarkedWords::split(std::string_view text, bool at_start, std::string& marked, std::vector<Piece>& words,
                        OffsetMap* origins) const {
  marked.clear();
  words.clear();
  if (!splits_at_white_space_) return append(text, 0, text.size(), at_start, marked, words, origins);
  const CharacterClasses& classes = CharacterClasses::instance();
  size_t begin = 0;
  for (size_t at = 0; at <= text.size();) {
    const Character character = at < text.size() ? character_at(text.data() + at) : Character{' ', 1};
    if (classes(character.code) & kSpace) {
      if (begin < at) append(text, begin, at, at_start, marked, words, origins);
      begin = at + character.bytes;
    }
    at += character.bytes;
  }
}

void MarkedWords::append(std::string_view text, size_t begin, size_t end, bool at_start, std::string& marked,
                         std::vector<Piece>& words, OffsetMap* origins) const {
  const std::string_view given = text.substr(0, end);
  const auto put_mark = [&](size_t from) {
    if (origins != nullptr) origins->rewritten(marked.size(), from);
    marked += kBlankMark;
  };
  size_t word = marked.size();
  const auto end_word = [&] {
    if (word < marked.size()) words.push_back({word, marked.size()});
    word = marked.size();
  };
  const bool wants_mark = metaspace_.prepends == Metaspace::Prepends::kAlways ||
                          (metaspace_.prepends == Metaspace::Prepends::kFirst && at_start);
  const bool has_mark = given[begin] == ' ' || given.substr(begin).starts_with(kBlankMark);
  if (wants_mark && !has_mark) put_mark(begin);
  for (size_t at = begin; at < end;) {
    const bool blank = given[at] == ' ', mark = given.substr(at).starts_with(kBlankMark);
    if ((blank || mark) && metaspace_.splits) end_word();
    if (blank) {
      put_mark(at++);
      continue;
    }
    if (origins != nullptr) origins->copied(marked.size(), at);
    size_t next = at + (mark ? kBlankMark.size() : 0);
    while (next < end && given[next] != ' ' && !given.substr(next).starts_with(kBlankMark)) ++next;
    marked.append(given.substr(at, next - at));
    at = next;
  }
  end_word();
}

}  // namespace fathom::tokenizer
