// What the patterns of well-known tokenizers ask of a character, in one table look-up.
#pragma once

#include <cstdint>
#include <vector>

namespace fathom::tokenizer {

enum CharacterClass : uint8_t {
  kLetter = 1,     // \p{L}
  kNumber = 2,     // \p{N}
  kSpace = 4,      // \s
  kLineBreak = 8,  // \r and \n, which are kSpace too
  kWord = 16       // Rust's \w: alphabetic, marks, decimal digits, connectors, joiners
};

// By Oniguruma's own tables (Unicode 14 in Debian 12), so that it agrees with patterns that Oniguruma matches.
class CharacterClasses {
 public:
  static const CharacterClasses& instance();
  uint8_t operator()(char32_t code) const { return classes_[code]; }

 private:
  CharacterClasses();
  std::vector<uint8_t> classes_;  // of all code points
};

}  // namespace fathom::tokenizer
