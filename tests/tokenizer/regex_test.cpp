// What patterns may spend on one text, and that a search is repeated until its steps are enough.
#include "tokenizer/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::tokenizer {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

std::vector<std::string> matches(const char* pattern, const std::string& text) {
  std::vector<Piece> pieces;
  MatchBudget budget(text.size());
  Regex(pattern, "test").find_all(text, pieces, budget);
  std::vector<std::string> texts;
  for (const Piece& piece : pieces) texts.push_back(text.substr(piece.begin, piece.end - piece.begin));
  return texts;
}

std::string failure(const char* pattern, const std::string& text, MatchBudget budget) {
  std::vector<Piece> pieces;
  try {
    Regex(pattern, "test").find_all(text, pieces, budget);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Regex, FindsWhatTakesMoreThanAFewSteps) {
  const std::string gap(5000, '-');
  using Texts = std::vector<std::string>;
  EXPECT_EQ(matches("b+", gap + "bb" + gap + "b"), (Texts{"bb", "b"}));
  EXPECT_EQ(matches("(?:-|c)*b|-+$", gap + "b" + gap), (Texts{gap + "b", gap}));
  EXPECT_EQ(matches("(?:a|a){11}c|ab", std::string(20, 'a') + "b"), (Texts{"ab"}));
  EXPECT_EQ(matches("-\\z", gap), (Texts{"-"}));
  EXPECT_EQ(matches("x*", "é").size(), 2u);
}

TEST(Regex, SpendsOneBudgetOnAllSearchesOfAText) {
  // Four thousand steps at each place, which find nothing.
  const char* pattern = "(?:a|a){11}c|a";
  const std::string text(1000, 'a');
  EXPECT_EQ(failure(pattern, text, MatchBudget(text.size())), "no error");
  const std::string error = failure(pattern, text, MatchBudget(100'000, 1h));
  EXPECT_THAT(error, HasSubstr("test: the pattern fails on a text of 1000 bytes: it takes too long"));
  EXPECT_THAT(error, HasSubstr("split the text, or mend the pattern: (?:a|a){11}c|a"));
}

TEST(Regex, StopsInTimeWhereItDoesNotEvenBacktrack) {
  const std::string text(1'000'000, 'a');
  EXPECT_THAT(failure("(?>a*)b|a", text, MatchBudget(1'000'000'000, 100ms)), HasSubstr("it takes too long"));
}

}  // namespace
}  // namespace fathom::tokenizer
