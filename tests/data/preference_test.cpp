// Preferences: two answers to a prompt as two rows, through every stage that data pass.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/json_value.h"
#include "data/batch.h"
#include "data/read.h"
#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int32_t kNone = static_cast<int32_t>(kIgnored);

class PreferenceTest : public ::testing::Test {
 protected:
  PreferenceTest() {
    fs::create_directories(folder_);
    options_.answers = 2;
    bytes_.adds_bos = false;
  }
  ~PreferenceTest() override { fs::remove_all(folder_); }

  FileExamples read(const std::string& lines) const {
    const fs::path file = folder_ / "data.jsonl";
    std::ofstream(file, std::ios::binary) << lines;
    return read_file_examples(file, &bytes_, options_);
  }
  std::string refusal(const std::string& lines) const {
    try {
      read(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  testing::ByteTokenizer bytes_;
  DatasetOptions options_;
  const fs::path folder_ = fs::temp_directory_path() / ("fathom-preference-" + std::to_string(getpid()));
};

// 2 ends; "ab" is one token, 200.
TEST_F(PreferenceTest, AreTwoRowsOfWhichTheAnswersCount) {
  const Dataset dataset = read(R"({"prompt": "p:", "chosen": "x", "rejected": "yz$"})").dataset;
  EXPECT_EQ(dataset.size(), 1);
  EXPECT_EQ(dataset.row_count(), 2);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre('p', ':', 'x', 2));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(kNone, kNone, 'x', 2));
  EXPECT_THAT(dataset.example(1).ids, ElementsAre('p', ':', 'y', 'z', 2));
  EXPECT_THAT(dataset.example(1).labels, ElementsAre(kNone, kNone, 'y', 'z', 2));
}

// A token across the border of one answer is none of the prompt's, whichever answer it is in.
TEST_F(PreferenceTest, BothAnswersBeginBehindAsManyTokens) {
  const Dataset dataset = read(R"({"prompt": "pa", "chosen": "b", "rejected": "c"})").dataset;
  EXPECT_THAT(dataset.example(0).ids, ElementsAre('p', 200, 2));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(kNone, 200, 2));
  EXPECT_THAT(dataset.example(1).ids, ElementsAre('p', 'a', 'c', 2));
  EXPECT_THAT(dataset.example(1).labels, ElementsAre(kNone, 'a', 'c', 2));
}

TEST_F(PreferenceTest, AreCutOnTheRightAndLeftOutAsAWhole) {
  options_.max_length = 4;
  const FileExamples file = read(R"({"prompt": "pq", "chosen": "x", "rejected": "12345"})"
                                 "\n"
                                 R"({"prompt": "long", "chosen": "x", "rejected": "y"})"
                                 "\n"
                                 R"({"prompt": "q", "chosen": "same", "rejected": "same"})"
                                 "\n"
                                 R"({"prompt": "q", "chosen": "sam1", "rejected": "sam2"})"
                                 "\n");
  EXPECT_EQ(file.examples, 4);
  EXPECT_EQ(file.dataset.size(), 3);
  EXPECT_EQ(file.dataset.truncation().alike, 2);
  EXPECT_THAT(file.dataset.example(1).ids, ElementsAre('p', 'q', '1', '2'));
  EXPECT_EQ(file.dataset.truncation().truncated, 4);
  EXPECT_EQ(file.dataset.truncation().without_target, 1);
  EXPECT_EQ(file.notes.count(Note::kEqualAnswers), (Notes::Count{1, 3}));
}

TEST_F(PreferenceTest, StayTogether) {
  std::string lines;
  for (char answer = 'a'; answer < 'a' + 8; ++answer) {
    lines += std::string(R"({"prompt": ">", "chosen": ")") + answer + R"(", "rejected": ")" +
             std::string(static_cast<size_t>(answer - 'a' + 1), '-') + "\"}\n";
  }
  for (const bool kept : {false, true}) {
    options_.cache_folder = kept ? folder_ / "cache" : fs::path();
    for (int times = 0; times < 2; ++times) {
      const FileExamples file = read(lines);
      EXPECT_EQ(file.duplicates, 0);
      const Dataset some = Dataset::join({file.dataset.select({5, 2}), file.dataset.select({7})});
      EXPECT_EQ(some.size(), 3);
      const Batch batch = make_batch(some, some.rows_of({2, 0}), 0);
      EXPECT_EQ(batch.rows, 4);
      EXPECT_EQ(batch.ids[1], 'h');
      EXPECT_THAT(batch.lengths, ElementsAre(3, 10, 3, 8));
      const Split parts = split(file.dataset, 0.25, 3);
      EXPECT_EQ(parts.kept.size(), 6);
      EXPECT_EQ(parts.held_out.row_count(), 4);
      for (int64_t row = 0; row < 4; row += 2) {
        const int32_t letter = parts.held_out.example(row).ids[1];
        EXPECT_EQ(parts.held_out.length(row + 1), letter - 'a' + 3);
      }
    }
  }
}

// Each row is that of prompt and completion.
TEST_F(PreferenceTest, OfMessagesAreWrittenByTheChatTemplate) {
  const fs::path model = FATHOM_SOURCE_DIR "/tests/data/golden/conversations";
  const auto tokenizer = tokenizer::Tokenizer::open(model);
  options_.open_chat = [&] { return chat::ChatTemplate::open(model); };
  const Json prompt = {{{"role", "user"}, {"content", "Is it so?"}}};
  const auto answer = [](const char* said) { return Json{{{"role", "assistant"}, {"content", said}}}; };
  const auto read_line = [&](const Json& line, int64_t answers) {
    options_.answers = answers;
    const fs::path file = folder_ / "data.jsonl";
    std::ofstream(file, std::ios::binary) << line.dump() << "\n";
    return read_dataset(file, tokenizer.get(), options_);
  };
  const Dataset pair =
      read_line({{"prompt", prompt}, {"chosen", answer("Yes.")}, {"rejected", answer("By no means.")}}, 2);
  ASSERT_EQ(pair.row_count(), 2);
  for (const auto& [row, said] : {std::pair(0, "Yes."), std::pair(1, "By no means.")}) {
    const Dataset alone = read_line({{"prompt", prompt}, {"completion", answer(said)}}, 1);
    EXPECT_EQ(pair.example(row).ids, alone.example(0).ids);
    EXPECT_EQ(pair.example(row).labels, alone.example(0).labels);
  }
}

TEST_F(PreferenceTest, AreRefusedWhereTheyAreNone) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "p", "completion": "c"})",
       "is a line of prompt and completion, but the objective learns preferen"},
      {R"({"chosen": "p and a", "rejected": "p and b"})", ":1: is preference data (chosen, rejected) without a prompt"},
      {R"({"prompt": "p", "chosen": "a"})", "has no rejected"},
      {R"({"prompt": "p", "choosen": "a", "rejected": "b"})", "has no chosen"},
      {R"({"prompt": "p", "chosen": 3, "rejected": "b"})", "chosen: expected text, got number"},
      {R"({"prompt": "p", "chosen": ["a"], "rejected": "b"})", "chosen is a list of messages, but prompt is a text"},
      {R"({"prompt": null, "chosen": "a", "rejected": "b"})", "prompt: expected text, got null"},
      {R"({"prompt": "p", "chosen": "a", "rejected": "b", "system": "s"})", "system: a prompt that is text has no"},
      {R"({"prompt": [{"role": "user", "content": "q"}], "chosen": "a", "rejected": "b"})",
       "chosen: expected a list of messages, got string"},
      {R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "user", "content": "q"},)"
       R"({"role": "assistant", "content": "a"}], "rejected": [{"role": "assistant", "content": "b"}]})",
       "chosen begins with the messages of prompt"}};
  for (const auto& [line, told] : cases) EXPECT_THAT(refusal(line), HasSubstr(told)) << line;
}

}  // namespace
}  // namespace fathom::data
