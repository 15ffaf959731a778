// What a mistyped word probably meant, and words that mean none of those known.
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <string>

namespace fathom {
namespace {

const std::vector<std::string_view> kWords{"linear", "cosine", "constant", "constant_with_warmup"};

TEST(Nearest, FindsTheWordThatFewestLettersPart) {
  EXPECT_EQ(nearest_word("linaer", kWords), "linear");
  EXPECT_EQ(nearest_word("Cosine", kWords), "cosine");
  EXPECT_EQ(nearest_word("constant-with-warm_up", kWords), "constant_with_warmup");
  EXPECT_EQ(nearest_word("constan", kWords), "constant");
}

TEST(Nearest, IsEmptyWhereNoneIsNear) {
  EXPECT_EQ(nearest_word("polynomial", kWords), "");
  EXPECT_EQ(nearest_word("lin", {"linear"}), "");
  EXPECT_EQ(nearest_word("", kWords), "");
  EXPECT_EQ(nearest_word("linear", {}), "");
  const std::string word(65, 'a');
  EXPECT_EQ(nearest_word(word, {word}), "");
}

}  // namespace
}  // namespace fathom
