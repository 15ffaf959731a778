// Fills the table of character classes from Oniguruma's ranges.
#include "tokenizer/character_classes.h"

#include <string>

#include "tokenizer/regex.h"

namespace fathom::tokenizer {
namespace {

constexpr size_t kCodePoints = 0x110000;

}  // namespace

const CharacterClasses& CharacterClasses::instance() {
  static const CharacterClasses classes;
  return classes;
}

CharacterClasses::CharacterClasses() : classes_(kCodePoints) {
  auto mark = [this](const std::string& property, uint8_t bits) {
    for (const auto& [first, last] : code_ranges(property)) {
      for (size_t code = first; code <= last && code < kCodePoints; ++code) classes_[code] |= bits;
    }
  };
  mark("L", kLetter);
  mark("N", kNumber);
  mark("White_Space", kSpace);
  for (const char* word : {"Alphabetic", "M", "Nd", "Pc", "Join_Control"}) mark(word, kWord);
  classes_['\r'] |= kLineBreak;
  classes_['\n'] |= kLineBreak;
}

}  // namespace fathom::tokenizer
