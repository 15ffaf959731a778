// JSON lines into ids and labels: the three kinds, the border between prompt and completion, and every malformed line.
#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "data/read.h"
#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() / ("fathom_dataset_" + std::to_string(::getpid()) + ".jsonl");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  Dataset read(const std::string& lines) {
    std::filesystem::remove(file_);
    std::ofstream(file_, std::ios::binary) << lines;
    return read_dataset(file_, tokenizer_, options_);
  }
  std::string refusal(const std::string& lines) {
    try {
      read(lines);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  testing::ByteTokenizer bytes_;
  const tokenizer::Tokenizer* tokenizer_ = &bytes_;
  DatasetOptions options_;
  std::filesystem::path file_;
};

TEST_F(DatasetTest, ReadsText) {
  const Dataset dataset = read("{\"text\": \"xy\"}\n\n{\"text\": \"\", \"source\": 7}\r\n{\"text\": \"x$\"}");
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(1, 'x', 'y', 2));
  EXPECT_EQ(dataset.example(0).labels, dataset.example(0).ids);
  EXPECT_THAT(dataset.example(1).ids, ElementsAre(1, 2));
  EXPECT_THAT(dataset.example(2).ids, ElementsAre(1, 'x', 2));  // EOS is not doubled
}

TEST_F(DatasetTest, PutsNoBosWhereTheTokenizerSaysSo) {
  bytes_.adds_bos = false;
  EXPECT_THAT(read("{\"text\": \"xy\"}").example(0).ids, ElementsAre('x', 'y', 2));
  bytes_.eos_id.reset();
  EXPECT_THAT(read("{\"text\": \"xy\"}").example(0).ids, ElementsAre('x', 'y'));
}

TEST_F(DatasetTest, LearnsTheCompletionOnly) {
  const Dataset dataset = read(R"({"prompt": "pq", "completion": "xy"})");
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(1, 'p', 'q', 'x', 'y', 2));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(-100, -100, -100, 'x', 'y', 2));
  options_.completion_only_loss = false;
  EXPECT_EQ(read(R"({"prompt": "p", "completion": "x"})").example(0).labels, (std::vector<int32_t>{1, 'p', 'x', 2}));
}

TEST_F(DatasetTest, CountsATokenAcrossTheBorderToTheCompletion) {
  const Dataset dataset = read(R"({"prompt": "pa", "completion": "bx"})");
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(1, 'p', 200, 'x', 2));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(-100, -100, 200, 'x', 2));
}

TEST_F(DatasetTest, LearnsTheEndOfAnEmptyCompletion) {
  EXPECT_THAT(read(R"({"prompt": "p", "completion": ""})").example(0).labels, ElementsAre(-100, -100, 2));
  EXPECT_THAT(read(R"({"prompt": "", "completion": "x"})").example(0).labels, ElementsAre(-100, 'x', 2));
}

TEST_F(DatasetTest, LeavesOutTextsOfFewerThanTwoTokens) {
  bytes_.adds_bos = false;
  bytes_.eos_id.reset();
  const Dataset dataset = read("{\"text\": \"\"}\n{\"text\": \"x\"}\n{\"text\": \"xy\"}");
  ASSERT_EQ(dataset.size(), 1);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre('x', 'y'));
  EXPECT_EQ(dataset.truncation().without_target, 2);
}

TEST_F(DatasetTest, ReadsTokensAsTheyAre) {
  tokenizer_ = nullptr;
  const Dataset dataset = read("{\"input_ids\": [5, 6, 7], \"labels\": [-100, 6, -100]}\n{\"input_ids\": [8, 9]}\n");
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(5, 6, 7));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(-100, 6, -100));
  EXPECT_THAT(dataset.example(1).labels, ElementsAre(8, 9));
}

TEST_F(DatasetTest, CutsLongExamplesAndDropsThoseWithoutTarget) {
  options_.max_length = 3;
  const Dataset dataset = read(
      "{\"prompt\": \"p\", \"completion\": \"xyz\"}\n{\"prompt\": \"pqr\", \"completion\": \"x\"}\n"
      "{\"prompt\": \"\", \"completion\": \"\"}\n");
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(1, 'p', 'x'));
  EXPECT_EQ(dataset.truncation().truncated, 2);
  EXPECT_EQ(dataset.truncation().without_target, 1);
  // The label of the first token is never a target.
  EXPECT_THAT(refusal("{\"input_ids\": [5, 6], \"labels\": [5, -100]}"), HasSubstr("no example has a token to learn"));
}

TEST_F(DatasetTest, NamesFileAndLineOfEveryMistake) {
  options_.vocabulary_size = 300;
  const std::vector<std::pair<const char*, const char*>> mistakes = {
      {"{\"text\": \"x\"", "not valid JSON"},
      {"[1]", "expected an object"},
      {"{\"text\": 5}", "expected text"},
      {"{\"text\": null}", "expected text"},
      {"{\"text\": \"\xff\"}", "not valid JSON"},
      {"{\"text\": \"x\", \"prompt\": \"p\", \"completion\": \"c\"}", "mixes"},
      {"{\"prompt\": \"p\"}", "has prompt but no completion"},
      {"{\"completion\": \"c\"}", "has completion but no prompt"},
      {"{\"prompt\": 5, \"completion\": \"c\"}", "prompt: expected text"},
      {"{\"source\": 7}", "the keys of no format"},
      {"{\"input_ids\": [300, 1]}", "token id 300"},
      {"{\"input_ids\": [-1, 1]}", "token id -1"},
      {"{\"input_ids\": [1, 2], \"labels\": [1]}", "labels has 1 entries"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, 300]}", "label 300"},
      {"{\"input_ids\": [1, 2], \"labels\": [1, -1]}", "label -1"},
      {"{\"input_ids\": [1, 2.5]}", "whole numbers"},
      {"{\"input_ids\": [1, 4294967297]}", "whole numbers"},
      {"{\"input_ids\": [1, 18446744073709551615]}", "whole numbers"},
      {"{\"input_ids\": \"12\"}", "a list"},
      {"{\"input_ids\": []}", "empty"},
  };
  for (const auto& [line, expected] : mistakes) {
    const std::string message = refusal(std::string("\n") + line + "\n");
    EXPECT_THAT(message, HasSubstr(expected)) << line;
    EXPECT_THAT(message, HasSubstr(file_.string() + ":2")) << line;
  }
  EXPECT_THAT(refusal("{\"text\": \"x\"}\n{\"input_ids\": [1, 2]}\n"), HasSubstr(":2: is a line of input_ids"));
  EXPECT_THAT(refusal(""), HasSubstr("holds no examples"));
  EXPECT_THAT(refusal("{\"text\": \"\xc4\xa3\"}"), HasSubstr("token id -"));  // the tokenizer's own ids are checked too
}

TEST_F(DatasetTest, RefusesOptionsThatDoNotFitTheLines) {
  options_.completion_only_loss = true;
  EXPECT_THAT(refusal("{\"text\": \"x\"}"), HasSubstr("completion_only_loss"));
  EXPECT_THAT(refusal("{\"input_ids\": [1, 2]}"), HasSubstr("completion_only_loss"));
  EXPECT_EQ(refusal("{\"input_ids\": [1, 2], \"labels\": [-100, 2]}"), "");
  tokenizer_ = nullptr;
  EXPECT_THAT(refusal("{\"prompt\": \"p\", \"completion\": \"c\"}"), HasSubstr("tokenizer"));
}

TEST_F(DatasetTest, IsCutAsItIsRead) {
  const std::string lines =
      "{\"prompt\": \"a question\", \"completion\": \"c\"}\n{\"prompt\": \"q\", \"completion\": \"an answer\"}\n"
      "{\"prompt\": \"q\", \"completion\": \"\"}\n";
  const Dataset whole = read(lines);
  for (int64_t length = 2; length < 20; ++length) {
    options_.max_length = length;
    const Dataset cut_later = whole.cut(length);
    if (cut_later.empty()) {
      EXPECT_THAT(refusal(lines), HasSubstr("no example has a token to learn")) << length;
      continue;
    }
    const Dataset cut_at_once = read(lines);
    EXPECT_EQ(cut_later.fingerprint(), cut_at_once.fingerprint()) << length;
    EXPECT_EQ(cut_later.truncation().truncated, cut_at_once.truncation().truncated) << length;
    EXPECT_EQ(cut_later.truncation().without_target, cut_at_once.truncation().without_target) << length;
  }
}

TEST(Pairs, StayPairsWhereverTheyGo) {
  Dataset dataset({{{5, 6, 1, 7, 1}, {-100, -100, -100, 7, 1}},
                   {{1, 8, 4, 1}, {-100, 8, 4, 1}},
                   {{5, 1, 9, 1}, {-100, -100, 9, 1}}});
  EXPECT_FALSE(dataset.decoder_start());
  dataset.set_decoder_start(3);
  EXPECT_EQ(dataset.source_length(0), 3);
  EXPECT_EQ(dataset.source_length(1), 1);
  EXPECT_EQ(dataset.target_count(1), 3);

  const Dataset selected = dataset.select({2, 0});
  EXPECT_EQ(selected.decoder_start(), 3);
  EXPECT_EQ(selected.source_length(0), 2);
  const Dataset joined = Dataset::join({dataset, selected});
  EXPECT_EQ(joined.decoder_start(), 3);
  ASSERT_EQ(joined.size(), 5);
  EXPECT_EQ(joined.source_length(4), 3);
  EXPECT_EQ(joined.example(3).labels, dataset.example(2).labels);
  const Split parts = split(dataset, 0.3, 1);
  EXPECT_EQ(parts.kept.decoder_start(), 3);
  EXPECT_EQ(parts.held_out.decoder_start(), 3);
  EXPECT_EQ(parts.kept.size() + parts.held_out.size(), 3);
}

// Each was cut when it was read: what is longer together than max_length is none of a pair's business.
TEST(Pairs, AreNotCutTogether) {
  const std::vector<Example> examples = {{{5, 6, 1, 7, 8, 1}, {-100, -100, -100, 7, 8, 1}}};
  Dataset pair(examples);
  pair.set_decoder_start(0);
  const Dataset cut = pair.cut(3);
  EXPECT_EQ(cut.decoder_start(), 0);
  ASSERT_EQ(cut.size(), 1);
  EXPECT_EQ(cut.example(0).ids, examples[0].ids);
  EXPECT_EQ(cut.truncation().truncated, 0);
  EXPECT_TRUE(Dataset(examples).cut(3).empty()) << "as one stream nothing to learn would be left";
}

TEST(Fingerprint, ChangesWithEveryIdLabelBorderAndOrder) {
  const auto of = [](const std::vector<Example>& examples) { return Dataset(examples).fingerprint(); };
  const std::string whole = of({{{1, 2}, {1, 2}}, {{3}, {3}}});
  EXPECT_EQ(whole, of({{{1, 2}, {1, 2}}, {{3}, {3}}}));
  EXPECT_NE(whole, of({{{1, 9}, {1, 2}}, {{3}, {3}}}));
  EXPECT_NE(whole, of({{{1, 2}, {-100, 2}}, {{3}, {3}}}));
  EXPECT_NE(whole, of({{{3}, {3}}, {{1, 2}, {1, 2}}}));
  EXPECT_NE(whole, of({{{1, 2, 3}, {1, 2, 3}}}));
}

}  // namespace
}  // namespace fathom::data
