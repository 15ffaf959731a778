#include "tokenizer/character_pairs.h"

#include <gtest/gtest.h>

namespace fathom::tokenizer {
namespace {

TEST(CharacterPairs, AreNeighboursInAPiece) {
  CharacterPairs pairs;
  pairs.add("abé");
  pairs.add("x");
  pairs.add("");
  EXPECT_TRUE(pairs.contains('a', 'b'));
  EXPECT_TRUE(pairs.contains('b', U'é'));
  EXPECT_FALSE(pairs.contains('b', 'a'));
  EXPECT_FALSE(pairs.contains('a', U'é'));
  EXPECT_FALSE(pairs.contains(U'é', 'x')) << "of two pieces";
}

TEST(CharacterPairs, EndWhereAPieceIsIllFormed) {
  CharacterPairs pairs;
  pairs.add(
      "ab\xFF"
      "cd");
  EXPECT_TRUE(pairs.contains('a', 'b'));
  EXPECT_FALSE(pairs.contains('c', 'd'));
}

}  // namespace
}  // namespace fathom::tokenizer
