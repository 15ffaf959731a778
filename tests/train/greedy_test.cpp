// Rows of different prompts are answered as each is alone, and take the same memory whatever they answer.
#include "train/greedy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json_value.h"
#include "tests/model/golden.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using Rows = std::vector<std::vector<int32_t>>;

std::vector<int32_t> numbers(const at::Tensor& ids) {
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < ids.numel(); ++i) numbers.push_back(static_cast<int32_t>(ids.view({-1})[i].item<int64_t>()));
  return numbers;
}

// Prompts with what transformers continues them with.
struct Questions {
  Rows prompts, answers;
};

Questions questions_of(const model::Golden& golden) {
  constexpr int64_t kPrompt = 5;  // of the golden continuations of decoders
  Questions questions;
  for (size_t row = 0; row < golden.continuations.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    questions.prompts.push_back(numbers(golden.inputs.source_BS[index].narrow(0, 0, golden.source_lengths[row])));
    questions.answers.emplace_back(golden.continuations[row].begin(), golden.continuations[row].end());
  }
  if (!golden.continuations.empty()) return questions;
  const std::vector<int32_t> prompt = numbers(golden.ids_BS[0].narrow(0, 0, kPrompt));
  const std::vector<int32_t> whole(golden.continuation.begin(), golden.continuation.end());
  for (const std::ptrdiff_t known : {7, 0, 3}) {  // a prompt that knows so much of the answer
    questions.prompts.push_back(prompt);
    questions.prompts.back().insert(questions.prompts.back().end(), whole.begin(), whole.begin() + known);
    questions.answers.emplace_back(whole.begin() + known, whole.end());
  }
  return questions;
}

Prompts prompts_of(const arch::Architecture& architecture, const Rows& rows, int64_t most) {
  const auto shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto shortest = std::ssize(*std::min_element(rows.begin(), rows.end(), shorter));
  const auto longest = std::ssize(*std::max_element(rows.begin(), rows.end(), shorter));
  Prompts prompts;
  prompts.shape = architecture.encoder ? schedule::AnswerShape{std::ssize(rows), 1, most, longest}
                                       : schedule::AnswerShape{std::ssize(rows), shortest, longest + most - 1, 0};
  prompts.rows = rows;
  prompts.most = most;
  return prompts;
}

class Greedy : public ::testing::TestWithParam<std::string> {};

TEST_P(Greedy, RowsAreAnsweredAsTransformersAnswersThem) {
  const model::Golden golden(GetParam());
  model::Decoder model = golden.make({}, false);
  const Questions questions = questions_of(golden);
  const int64_t most = 40;
  const Rows answers = continue_greedily(model, prompts_of(golden.architecture, questions.prompts, most));
  ASSERT_EQ(answers.size(), questions.answers.size());
  for (size_t row = 0; row < answers.size(); ++row) {
    const auto& expected = questions.answers[row];
    EXPECT_EQ(answers[row], std::vector<int32_t>(expected.begin(), expected.begin() + most)) << "row " << row;
  }
}

TEST_P(Greedy, RowsEndWhereTheyStop) {
  const model::Golden golden(GetParam());
  model::Decoder model = golden.make({}, false);
  const Questions questions = questions_of(golden);
  Prompts prompts = prompts_of(golden.architecture, questions.prompts, 40);
  prompts.stop_ids = {questions.answers[0][4], 1'000'000};
  const Rows answers = continue_greedily(model, prompts);
  for (size_t row = 0; row < answers.size(); ++row) {
    const auto& expected = questions.answers[row];
    const auto stop = std::find(expected.begin(), expected.begin() + 40, questions.answers[0][4]);
    EXPECT_EQ(answers[row], std::vector<int32_t>(expected.begin(), stop)) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, Greedy, ::testing::ValuesIn(model::golden_shapes()),
                         [](const auto& info) { return info.param; });

// What is planned is what is taken, whatever is answered: a shape alone, answers that stop at once, whole ones.
TEST(GreedyMemory, IsThatOfTheShape) {
  auto trainer = testing::tiny_trainer(testing::tiny_config());
  const Rows rows = {{5, 6, 7, 8}, {9, 3}, {1, 2, 3}};
  const Prompts whole = prompts_of(trainer->model().architecture(), rows, 12);
  const Answers answers = trainer->answer(1, [&](int64_t) { return whole; });
  ASSERT_EQ(answers.ids.size(), 3u);
  for (const auto& row : answers.ids) EXPECT_EQ(row.size(), 12u);
  Prompts stopped = whole;
  for (int64_t id = 0; id < 101; ++id) stopped.stop_ids.push_back(id);
  const Answers none = trainer->answer(1, [&](int64_t) { return stopped; });
  for (const auto& row : none.ids) EXPECT_TRUE(row.empty());
  const Answers shape = trainer->answer(1, [&](int64_t) { return Prompts{whole.shape}; });
  EXPECT_TRUE(shape.ids.empty());
  EXPECT_GT(answers.memory.peak, 0);
  for (const Answers* other : {&none, &shape}) {
    EXPECT_EQ(other->memory.peak, answers.memory.peak);
    EXPECT_EQ(other->memory.maximum, answers.memory.maximum);
  }
}

TEST(GreedyMemory, OfOneTokenIsOnePass) {
  auto trainer = testing::tiny_trainer(testing::tiny_config());
  const Rows rows = {{5, 6}, {9, 3}};
  const Answers answers =
      trainer->answer(1, [&](int64_t) { return prompts_of(trainer->model().architecture(), rows, 1); });
  ASSERT_EQ(answers.ids.size(), 2u);
  for (const auto& row : answers.ids) EXPECT_EQ(row.size(), 1u);
}

TEST(GreedyMemory, StopsBetweenBatches) {
  auto trainer = testing::tiny_trainer(testing::tiny_config());
  const Prompts prompts = prompts_of(trainer->model().architecture(), {{5, 6}}, 2);
  const Answers answers = trainer->answer(
      3, [&](int64_t) { return prompts; }, [] { return true; });
  EXPECT_FALSE(answers.complete);
  EXPECT_EQ(answers.ids.size(), 1u);
}

}  // namespace
}  // namespace fathom::train
