// One function per alternative of the patterns, tried in the patterns' order at each place.
#include "tokenizer/known_patterns.h"

#include <iterator>

#include "tokenizer/character_classes.h"
#include "tokenizer/utf8.h"

namespace fathom::tokenizer {
namespace {

struct Known {
  KnownPattern pattern;
  std::string_view text;
};
constexpr Known kKnown[] = {
    {KnownPattern::kGpt2, R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
    {KnownPattern::kLlama3,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {KnownPattern::kQwen2,
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};
constexpr uint8_t kLetterNumberSpace = kLetter | kNumber | kSpace;

template <KnownPattern kPattern>
class Splitter {
 public:
  Splitter(std::string_view text, Piece range, std::vector<Piece>& pieces)
      : text_(text.data()), at_(range.begin), end_(range.end), pieces_(pieces) {}

  void split() {
    while (at_ < end_) {
      const size_t begin = at_;
      take_one();
      pieces_.push_back({begin, at_});
    }
  }

 private:
  static constexpr bool kGpt2 = kPattern == KnownPattern::kGpt2;

  struct Seen {
    uint8_t classes;
    uint32_t bytes;
  };
  Seen look(size_t at) const {
    const auto byte = static_cast<unsigned char>(text_[at]);
    if (byte < 0x80) return {classes_(byte), 1};
    const Character character = character_at(text_ + at);
    return {classes_(character.code), character.bytes};
  }
  bool is_other(size_t at) const { return at < end_ && (look(at).classes & kLetterNumberSpace) == 0; }

  template <typename Wanted>
  void take_while(Wanted wanted) {
    while (at_ < end_) {
      const Seen seen = look(at_);
      if (!wanted(seen.classes)) break;
      at_ += seen.bytes;
    }
  }
  void take_letters() {
    take_while([](uint8_t classes) { return (classes & kLetter) != 0; });
  }

  void take_one() {
    if (text_[at_] == '\'' && take_contraction()) return;
    const Seen first = look(at_);
    const size_t second = at_ + first.bytes;
    if (first.classes & kLetter) return take_letters();
    if (leads_letters(first) && second < end_ && (look(second).classes & kLetter)) {
      at_ = second;
      return take_letters();
    }
    const bool blank = text_[at_] == ' ';
    if (first.classes & kNumber || (kGpt2 && blank && second < end_ && (look(second).classes & kNumber))) {
      return take_numbers();
    }
    if ((first.classes & kLetterNumberSpace) == 0 || (blank && is_other(second))) return take_others();
    take_spaces();
  }

  // 's|'t|'re|'ve|'m|'ll|'d, in any case but for GPT-2. U+017F is an s in any case, too.
  bool take_contraction() {
    auto lower = [this](size_t at) {
      if (at >= end_) return '\0';
      const char letter = text_[at];
      return !kGpt2 && letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    };
    const char first = lower(at_ + 1), second = lower(at_ + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') {
      at_ += 2;
      return true;
    }
    const bool two = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l');
    const bool long_s = !kGpt2 && first == '\xC5' && second == '\xBF';
    if (two || long_s) at_ += 3;
    return two || long_s;
  }

  // GPT-2 takes one blank before letters, the others anything but letters, numbers and line breaks.
  bool leads_letters(Seen first) const {
    return kGpt2 ? text_[at_] == ' ' : (first.classes & (kNumber | kLineBreak)) == 0;
  }

  void take_numbers() {
    if (kGpt2) {
      if (text_[at_] == ' ') ++at_;
      take_while([](uint8_t classes) { return (classes & kNumber) != 0; });
      return;
    }
    const int most = kPattern == KnownPattern::kLlama3 ? 3 : 1;
    for (int count = 0; count < most && at_ < end_ && (look(at_).classes & kNumber); ++count) at_ += look(at_).bytes;
  }

  void take_others() {
    if (text_[at_] == ' ') ++at_;
    take_while([](uint8_t classes) { return (classes & kLetterNumberSpace) == 0; });
    if (!kGpt2) {
      while (at_ < end_ && (text_[at_] == '\r' || text_[at_] == '\n')) ++at_;
    }
  }

  // \s*[\r\n]+ ends after the last line break of the run; \s+(?!\S) leaves the last blank to what follows; \s+ takes
  // it.
  void take_spaces() {
    const size_t begin = at_;
    size_t last = at_, after_break = at_;
    while (at_ < end_) {
      const Seen seen = look(at_);
      if ((seen.classes & kSpace) == 0) break;
      last = at_;
      at_ += seen.bytes;
      if (seen.classes & kLineBreak) after_break = at_;
    }
    if (!kGpt2 && after_break > begin) {
      at_ = after_break;
    } else if (at_ < end_ && last > begin) {
      at_ = last;
    }
  }

  const CharacterClasses& classes_ = CharacterClasses::instance();
  const char* text_;
  size_t at_, end_;
  std::vector<Piece>& pieces_;
};

}  // namespace

std::string_view text_of(KnownPattern pattern) { return kKnown[static_cast<int>(pattern)].text; }

std::optional<KnownPattern> find_known_pattern(std::string_view text) {
  for (const Known& known : kKnown) {
    if (known.text == text) return known.pattern;
  }
  return std::nullopt;
}

void split_by(KnownPattern pattern, std::string_view text, Piece range, std::vector<Piece>& pieces) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return Splitter<KnownPattern::kGpt2>(text, range, pieces).split();
    case KnownPattern::kLlama3:
      return Splitter<KnownPattern::kLlama3>(text, range, pieces).split();
    case KnownPattern::kQwen2:
      return Splitter<KnownPattern::kQwen2>(text, range, pieces).split();
  }
}

}  // namespace fathom::tokenizer
