// Added tokens are found where the rule says.
#include "tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace fathom::tokenizer {
namespace {

using Stretch = AddedTokenFinder::Stretch;

// The rule itself: at each place, the longest of all tokens that begin there.
std::vector<Stretch> by_the_rule(const std::vector<AddedToken>& tokens, std::string_view text) {
  std::vector<Stretch> stretches;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* longest = nullptr;
    for (const AddedToken& token : tokens) {
      const bool longer = longest == nullptr || token.text.size() > longest->text.size();
      if (longer && text.substr(at).starts_with(token.text)) longest = &token;
    }
    if (longest == nullptr) {
      ++at;
      continue;
    }
    if (start < at) stretches.push_back({start, at, AddedTokenFinder::kText});
    stretches.push_back({at, at + longest->text.size(), longest->id});
    at = start = at + longest->text.size();
  }
  if (start < text.size()) stretches.push_back({start, text.size(), AddedTokenFinder::kText});
  return stretches;
}

std::string drawn(std::mt19937& random, std::string_view letters, size_t length) {
  std::string text;
  for (; length > 0; --length) text += letters[random() % letters.size()];
  return text;
}

std::vector<AddedToken> drawn_tokens(std::mt19937& random, std::string_view letters, size_t count) {
  std::vector<AddedToken> tokens;
  while (tokens.size() < count) {
    const std::string text = drawn(random, letters, 1 + random() % 6);
    const bool known = std::any_of(tokens.begin(), tokens.end(), [&](const auto& other) { return other.text == text; });
    if (!known) tokens.push_back({.text = text, .id = static_cast<int32_t>(tokens.size())});
  }
  return tokens;
}

TEST(AddedTokens, AreFoundAsTheRuleSays) {
  std::mt19937 random(5);
  for (int round = 0; round < 3000; ++round) {
    // Few letters, so that tokens begin, contain and overlap one another; bytes from both halves, as they compare.
    const std::string_view letters = std::string_view("ab<\xC3\x20\xFF").substr(0, 2 + random() % 5);
    const std::vector<AddedToken> tokens = drawn_tokens(random, letters, random() % 7);
    const std::string text = drawn(random, letters, random() % 40);
    const std::vector<Stretch> found = AddedTokenFinder(tokens).find(text), expected = by_the_rule(tokens, text);
    ASSERT_EQ(found.size(), expected.size()) << text;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].begin, expected[i].begin) << text;
      EXPECT_EQ(found[i].end, expected[i].end) << text;
      EXPECT_EQ(found[i].id, expected[i].id) << text;
    }
  }
}

}  // namespace
}  // namespace fathom::tokenizer
