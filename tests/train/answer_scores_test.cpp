// Answers held against references: by the words they share, as rouge_score counts them, and by being the same.
#include "train/answer_scores.h"

#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom::train {
namespace {

TEST(RougeL, IsAsGooglesComputesIt) {
  const Json rows = read_json(FATHOM_SOURCE_DIR "/tests/train/golden/answer_scores.json");
  ASSERT_GT(rows.size(), 20u);
  for (const Json& row : rows) {
    EXPECT_NEAR(rouge_l(row.at("said").get<std::string>(), row.at("reference").get<std::string>()),
                row.at("rouge_l").get<double>(), 1e-12)
        << row;
  }
}

TEST(RougeL, DividesAtAnyBlanks) {
  EXPECT_EQ(rouge_l("\ta  b\n", "a b"), 1);
  EXPECT_EQ(rouge_l("a\rb c", "a b\fc\v"), 1);
  EXPECT_EQ(rouge_l("", "a"), 0);
  EXPECT_EQ(rouge_l("a", "  "), 0);
  EXPECT_EQ(rouge_l("", ""), 0);
}

TEST(AnswerScores, AreMeans) {
  AnswerScores scores;
  EXPECT_EQ(scores.exact_match(), 0);
  EXPECT_EQ(scores.rouge_l(), 0);
  scores.add(" 16 GB\n", "16 GB");
  scores.add("16 gb", "16 GB");   // half of its words
  scores.add("16  GB", "16 GB");  // not the same text
  scores.add("", "");
  EXPECT_EQ(scores.answers(), 4);
  EXPECT_EQ(scores.exact_match(), 0.5);
  EXPECT_EQ(scores.rouge_l(), 2.5 / 4);
}

}  // namespace
}  // namespace fathom::train
