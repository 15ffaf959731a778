// Broken UTF-8, NFC, and where their bytes came from.
#include "tokenizer/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/normal_form.h"

namespace fathom::tokenizer {
namespace {

const std::string kBad = "\xEF\xBF\xBD";

TEST(Utf8, ReplacesMaximalIllFormedParts) {
  EXPECT_EQ(replace_ill_formed("a\xFFz"), "a" + kBad + "z");
  EXPECT_EQ(replace_ill_formed("\xE2\x82"), kBad);                    // cut off
  EXPECT_EQ(replace_ill_formed("\xE2\x28\xA1"), kBad + "(" + kBad);   // the second byte does not fit
  EXPECT_EQ(replace_ill_formed("\xED\xA0\x80"), kBad + kBad + kBad);  // a surrogate
  EXPECT_EQ(replace_ill_formed("\xC0\xAF"), kBad + kBad);             // overlong
  EXPECT_EQ(replace_ill_formed("\xF0\x9F\x99x"), kBad + "x");         // three of four bytes
  EXPECT_EQ(replace_ill_formed("\xF4\x90\x80\x80"), kBad + kBad + kBad + kBad);
  EXPECT_EQ(replace_ill_formed("Größe 🙂"), "Größe 🙂");
}

TEST(Utf8, KnowsACharacterThatIsCutOff) {
  EXPECT_TRUE(is_cut_off("\xE2\x82"));
  EXPECT_TRUE(is_cut_off("\xF0\x9F\x99"));
  EXPECT_FALSE(is_cut_off("\xE2\x82\xAC"));
  EXPECT_FALSE(is_cut_off("\xFF"));
  EXPECT_FALSE(is_cut_off("a\xE2"));
}

TEST(Utf8, RemembersWhereBytesCameFrom) {
  OffsetMap origins;
  const std::string text = replace_ill_formed("a\xFFz\xE2\x82y", &origins);
  ASSERT_EQ(text, "a" + kBad + "z" + kBad + "y");
  std::vector<size_t> from;
  for (size_t at = 0; at < text.size(); ++at) from.push_back(origins.origin(at));
  EXPECT_THAT(from, ::testing::ElementsAre(0, 1, 1, 1, 2, 3, 3, 3, 5));
}

TEST(NormalForm, ComposesAndRemembersWhereBytesCameFrom) {
  OffsetMap origins;
  const std::string text = compose("xe\xCC\x81y", NormalForm::kComposed, &origins);  // e and U+0301
  ASSERT_EQ(text, "x\xC3\xA9y");
  std::vector<size_t> from;
  for (size_t at = 0; at < text.size(); ++at) from.push_back(origins.origin(at));
  EXPECT_THAT(from, ::testing::ElementsAre(0, 1, 1, 4));
  EXPECT_FALSE(is_plainly_composed("e\xCC\x81"));
  EXPECT_TRUE(is_plainly_composed("Größe 日本 동물"));
  EXPECT_EQ(compose("\xE2\x84\xAB"), "\xC3\x85");                              // the sign for ångström
  EXPECT_EQ(compose("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8"), "\xEA\xB0\x81");  // Hangul
  EXPECT_EQ(compose("a\xCC\x82\xCC\xA3"), "\xE1\xBA\xAD");                     // marks change places
}

// utf8proc sorts marks by exchanging neighbours, which a run of 200,000 would turn into hours.
TEST(NormalForm, TakesLongRunsOfMarks) {
  std::string text = "a";
  for (int i = 0; i < 100000; ++i) text += "\xCC\x81\xCC\xA3";
  const std::string composed = compose(text);
  EXPECT_EQ(composed.size(), text.size());
  EXPECT_TRUE(
      composed.starts_with("\xE1\xBA\xA1\xCC\xA3"));  // one dot below joins the a, the others go before the acutes
  EXPECT_TRUE(composed.ends_with("\xCC\x81\xCC\x81"));
}

}  // namespace
}  // namespace fathom::tokenizer
