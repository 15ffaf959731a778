// Prompts and answers of samples, and the batches in which they are answered.
#include "schedule/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/schedule/order_cases.h"

namespace fathom::schedule {
namespace {

using testing::config_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::pairs_of;

constexpr int32_t kNone = data::kIgnored;

config::RunConfig asking(int64_t rows) {
  config::RunConfig config = config_of(1, 1, 1);
  config.per_device_eval_batch_size = rows;
  config.predict_with_generate = true;
  return config;
}

// Prompts and answers of these lengths, as a decoder reads them.
data::Dataset questions_of(const std::vector<std::pair<int64_t, int64_t>>& lengths) {
  data::Dataset pairs = pairs_of(lengths);
  pairs.set_decoder_start(std::nullopt);
  return pairs;
}

TEST(Question, IsTheSourceAndTheTargetOfAPair) {
  data::Dataset pairs({{{4, 5, 6, 7}, {kNone, kNone, kNone, 7}}, {{4, 5, 6}, {kNone, 5, 6}}});
  pairs.set_decoder_start(0);
  EXPECT_THAT(question_of(pairs, 0).prompt, ElementsAre(4, 5, 6));
  EXPECT_THAT(question_of(pairs, 0).reference, ElementsAre(7));
  EXPECT_THAT(question_of(pairs, 1).prompt, ElementsAre(4));
  EXPECT_THAT(question_of(pairs, 1).reference, ElementsAre(5, 6));
}

TEST(Question, OfADecoderIsWhatStandsBeforeTheLastAnswer) {
  const data::Dataset samples({{{1, 2, 3, 4}, {kNone, kNone, 3, 4}},
                               {{1, 2, 3, 4, 5, 6}, {kNone, 2, kNone, kNone, 5, kNone}},  // the last of two turns
                               {{1, 2, 3}, {1, 2, 3}}});
  EXPECT_THAT(question_of(samples, 0).prompt, ElementsAre(1, 2));
  EXPECT_THAT(question_of(samples, 0).reference, ElementsAre(3, 4));
  EXPECT_THAT(question_of(samples, 1).prompt, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(question_of(samples, 1).reference, ElementsAre(5));
  EXPECT_THAT(question_of(samples, 2).prompt, IsEmpty());
  EXPECT_THAT(question_of(samples, 2).reference, ElementsAre(1, 2, 3));
}

TEST(AnswerBatches, AreOfSimilarPrompts) {
  const data::Dataset pairs = pairs_of({{9, 2}, {3, 5}, {7, 1}, {3, 4}, {8, 1}});
  EXPECT_EQ(longest_answer(asking(2), pairs), 5);
  const std::vector<AnswerBatch> batches = answer_batches(asking(2), pairs, 5);
  ASSERT_EQ(batches.size(), 3u);
  EXPECT_THAT(batches[0].rows, ElementsAre(1, 3)) << "in the order of the file where they are as long";
  EXPECT_THAT(batches[1].rows, ElementsAre(2, 4));
  EXPECT_THAT(batches[2].rows, ElementsAre(0));
  EXPECT_EQ(batches[0].shape, (AnswerShape{2, 1, 5, 3}));
  EXPECT_EQ(batches[1].shape, (AnswerShape{2, 1, 5, 8}));
  EXPECT_EQ(batches[2].shape, (AnswerShape{1, 1, 5, 9}));
  EXPECT_THAT(answer_shapes(asking(2), pairs), ElementsAre(AnswerShape{2, 1, 5, 8}, AnswerShape{1, 1, 5, 9}));
  EXPECT_THAT(answer_shapes(asking(2), pairs_of({{4, 1}, {4, 1}, {4, 1}})),
              ElementsAre(AnswerShape{2, 1, 1, 4}, AnswerShape{1, 1, 1, 4}))
      << "one row has kernels of its own";
}

TEST(AnswerBatches, OfADecoderBeginWithTheShortestPrompt) {
  const data::Dataset samples = questions_of({{9, 2}, {3, 5}, {7, 1}});
  const std::vector<AnswerBatch> batches = answer_batches(asking(2), samples, 5);
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].shape, (AnswerShape{2, 3, 11, 0}));
  EXPECT_EQ(batches[1].shape, (AnswerShape{1, 9, 13, 0}));
}

TEST(AnswerBatches, EndWhereTheConfigSays) {
  config::RunConfig config = asking(4);
  config.generation_max_length = 3;
  const data::Dataset samples = questions_of({{4, 9}, {6, 1}});
  EXPECT_EQ(longest_answer(config, samples), 3);
  EXPECT_THAT(answer_shapes(config, samples), ElementsAre(AnswerShape{2, 4, 8, 0}));
  config.predict_with_generate = false;
  EXPECT_THAT(answer_shapes(config, samples), IsEmpty());
}

TEST(AnswerBatches, NeedPrompts) {
  data::Dataset samples({{{1, 2, 3}, {kNone, 2, 3}}, {{1, 2, 3}, {1, 2, 3}}});
  try {
    answer_shapes(asking(1), samples);
    ADD_FAILURE() << "a sample without a prompt was taken";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sample 2 of the validation data has no prompt"));
  }
}

TEST(Answers, AreRefusedBeyondLearnedPositions) {
  arch::Architecture architecture;
  architecture.max_position_embeddings = 16;
  EXPECT_NO_THROW(refuse_longer_answers(architecture, {{2, 5, 40, 0}}, 30)) << "its positions have no end";
  architecture.learned_positions = true;
  EXPECT_NO_THROW(refuse_longer_answers(architecture, {{2, 5, 16, 0}, {1, 9, 9, 0}}, 8));
  try {
    refuse_longer_answers(architecture, {{2, 5, 17, 0}, {1, 9, 19, 0}}, 8);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("set generation_max_length: 5,")) << "a prompt of 12";
  }
}

TEST(Answers, AreRefusedWhereLongropeTurnsThemAnew) {
  arch::Architecture architecture;
  architecture.layers.resize(1);
  architecture.layers.front().attention().rotary = arch::Rotary{.width = 2, .scaling = arch::LongRope{{1}, {2}, 16}};
  EXPECT_NO_THROW(refuse_answers_read_anew(architecture, {{2, 5, 16, 0}, {2, 17, 40, 0}}));
  EXPECT_THROW(refuse_answers_read_anew(architecture, {{2, 5, 17, 0}}), UsageError);
  EXPECT_THROW(refuse_answers_read_anew(architecture, {{2, 16, 17, 0}}), UsageError);
  architecture.layers.front().attention().rotary->scaling = arch::LinearRope{2};
  EXPECT_NO_THROW(refuse_answers_read_anew(architecture, {{2, 5, 17, 0}}));
}

}  // namespace
}  // namespace fathom::schedule
