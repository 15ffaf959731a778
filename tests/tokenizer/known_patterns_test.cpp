// The splitters written by hand against Oniguruma, over adversarial strings, and their classes over all characters.
#include "tokenizer/known_patterns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tokenizer/adversarial.h"
#include "tokenizer/character_classes.h"

namespace fathom::tokenizer {
namespace {

constexpr KnownPattern kPatterns[] = {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2};

std::vector<std::string> texts_of(std::string_view text, const std::vector<Piece>& pieces) {
  std::vector<std::string> texts;
  for (const Piece& piece : pieces) texts.emplace_back(text.substr(piece.begin, piece.end - piece.begin));
  return texts;
}

std::vector<std::string> by_hand(KnownPattern pattern, std::string_view text) {
  std::vector<Piece> pieces;
  split_by(pattern, text, {0, text.size()}, pieces);
  return texts_of(text, pieces);
}

std::vector<std::string> by_oniguruma(const Regex& regex, std::string_view text) {
  std::vector<Piece> pieces;
  MatchBudget budget(text.size());
  regex.find_all(text, pieces, budget);
  return texts_of(text, pieces);
}

TEST(KnownPatterns, AreFoundByTheirText) {
  for (const KnownPattern pattern : kPatterns) EXPECT_EQ(find_known_pattern(text_of(pattern)), pattern);
  EXPECT_FALSE(find_known_pattern(std::string(text_of(KnownPattern::kGpt2)) + "|x"));
}

TEST(KnownPatterns, SplitAsOnigurumaDoes) {
  const Adversarial strings;
  for (const KnownPattern pattern : kPatterns) {
    const Regex regex(std::string(text_of(pattern)), "test");
    for (uint64_t i = 0; i < 20000; ++i) {
      const std::string text = replace_ill_formed(strings.make(i));
      ASSERT_EQ(by_hand(pattern, text), by_oniguruma(regex, text)) << i << ": " << text;
    }
  }
}

// Every string of up to four letters from those that the patterns tell apart, but for trailing ones of the first kind.
TEST(KnownPatterns, SplitEveryShortStringAsOnigurumaDoes) {
  const std::string letters[] = {"a", "7", " ", "\n", "\t", "'", "s", "L", ".", "\xC2\xA0", "\xC5\xBF", "\xD9\xA3"};
  for (const KnownPattern pattern : kPatterns) {
    const Regex regex(std::string(text_of(pattern)), "test");
    for (int number = 1; number < 12 * 12 * 12 * 12; ++number) {
      std::string text;
      for (int rest = number; rest > 0; rest /= 12) text += letters[rest % 12];
      ASSERT_EQ(by_hand(pattern, text), by_oniguruma(regex, text)) << text;
    }
  }
}

TEST(KnownPatterns, ClassesAreThoseOfOniguruma) {
  const std::pair<uint8_t, const char*> classes[] = {{kLetter, R"(\p{L})"}, {kNumber, R"(\p{N})"}, {kSpace, R"(\s)"}};
  for (const auto& [bit, pattern] : classes) {
    const Regex regex(pattern, "test");
    std::vector<Piece> matches;
    for (char32_t code = 0; code < 0x110000; ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      std::string text;
      append_character(text, code);
      matches.clear();
      MatchBudget budget(text.size());
      regex.find_all(text, matches, budget);
      ASSERT_EQ((CharacterClasses::instance()(code) & bit) != 0, !matches.empty()) << pattern << " " << uint32_t{code};
    }
  }
}

}  // namespace
}  // namespace fathom::tokenizer
