// JSON lines into sources and targets: what ends each, where each is cut, and what is no pair.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "data/prompt_form.h"
#include "data/read.h"
#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class EncodePair : public ::testing::Test {
 protected:
  EncodePair() {
    fs::create_directories(folder_);
    bytes_.adds_bos = false;  // as T5's
    options_.decoder_start = 0;
  }
  ~EncodePair() override { fs::remove_all(folder_); }

  FileExamples read_file(const std::string& lines) {
    std::ofstream(file_, std::ios::binary) << lines;
    return read_file_examples(file_, tokenizer_, options_);
  }
  Dataset read(const std::string& lines) { return read_file(lines).dataset; }
  std::string refusal(const std::string& lines) {
    try {
      read(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<int32_t> ended(const std::string& text) const {
    std::vector<int32_t> ids = bytes_.encode(text);
    ids.push_back(*bytes_.eos_id);
    return ids;
  }

  testing::ByteTokenizer bytes_;
  const tokenizer::Tokenizer* tokenizer_ = &bytes_;
  DatasetOptions options_;
  const fs::path folder_ = fs::temp_directory_path() / ("fathom-pairs-" + std::to_string(getpid()));
  const fs::path file_ = folder_ / "data.jsonl";
};

TEST_F(EncodePair, EndsPromptAndCompletionEach) {
  const Dataset dataset = read(R"({"prompt": "pq", "completion": "xyz"})");
  EXPECT_EQ(dataset.decoder_start(), 0);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre('p', 'q', 2, 'x', 'y', 'z', 2));
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(-100, -100, -100, 'x', 'y', 'z', 2));
  EXPECT_EQ(dataset.source_length(0), 3);
  EXPECT_EQ(dataset.target_count(0), 4);
  const Dataset apart = read(R"({"prompt": "pa$", "completion": "b$"})");
  EXPECT_THAT(apart.example(0).ids, ElementsAre('p', 'a', 2, 'b', 2)) << "no token across, and no end is doubled";
  options_.completion_only_loss = true;
  EXPECT_EQ(read(R"({"prompt": "pq", "completion": "xyz"})").fingerprint(), dataset.fingerprint());
}

TEST_F(EncodePair, BeginsEachAsTheTokenizerSays) {
  bytes_.adds_bos = true;
  EXPECT_THAT(read(R"({"prompt": "p", "completion": "x"})").example(0).ids, ElementsAre(1, 'p', 2, 1, 'x', 2));
  bytes_.adds_bos = false;
  bytes_.eos_id.reset();
  EXPECT_THAT(read(R"({"prompt": "p", "completion": "x"})").example(0).ids, ElementsAre('p', 'x'));
}

TEST_F(EncodePair, PutsAlpacasQuestionInItsWords) {
  for (const std::string input : {"", "with it"}) {
    const Dataset dataset = read(R"({"instruction": "do", "input": ")" + input + R"(", "output": "xy"})");
    std::vector<int32_t> ids = ended(alpaca_prompt("do", input));
    EXPECT_EQ(dataset.source_length(0), std::ssize(ids));
    ids.insert(ids.end(), {'x', 'y', 2});
    EXPECT_EQ(dataset.example(0).ids, ids);
  }
  EXPECT_THAT(refusal(R"({"instruction": "do", "output": "x", "history": [["a", "b"]]})"), HasSubstr("history"));
}

TEST_F(EncodePair, TakesTokensAsTheyAre) {
  tokenizer_ = nullptr;
  const Dataset dataset = read(
      "{\"input_ids\": [5, 6, 1], \"labels\": [7, 8, -100, -100]}\n"
      "{\"input_ids\": [5], \"labels\": [5, 5, 5, 5]}\n");
  ASSERT_EQ(dataset.size(), 2);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre(5, 6, 1, 7, 8)) << "labels may be padded";
  EXPECT_THAT(dataset.example(0).labels, ElementsAre(-100, -100, -100, 7, 8));
  EXPECT_EQ(dataset.source_length(1), 1);
  EXPECT_EQ(dataset.target_count(1), 4);
}

TEST_F(EncodePair, CutsSourcesBeforeTheirEndAndTargetsWhereTheyAre) {
  options_.max_length = 3;
  options_.max_target_length = 2;
  const Dataset dataset = read(
      "{\"prompt\": \"pqrs\", \"completion\": \"xyz\"}\n"
      "{\"prompt\": \"pq\", \"completion\": \"x\"}\n"
      "{\"prompt\": \"p\", \"completion\": \"xyz\"}\n");
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_THAT(dataset.example(0).ids, ElementsAre('p', 'q', 2, 'x', 'y'));
  EXPECT_THAT(dataset.example(1).ids, ElementsAre('p', 'q', 2, 'x', 2));
  EXPECT_THAT(dataset.example(2).ids, ElementsAre('p', 2, 'x', 'y'));
  EXPECT_EQ(dataset.truncation().truncated, 2);
  EXPECT_EQ(dataset.truncation().cut_tokens, 2 + 2 + 2);
  EXPECT_EQ(dataset.truncation().cut_targets, 2 + 2);
  EXPECT_EQ(dataset.truncation().without_target, 0);

  const Dataset ids = read(
      "{\"input_ids\": [5, 6, 7, 2], \"labels\": [8]}\n"
      "{\"input_ids\": [5, 6, 7, 8], \"labels\": [8]}\n");
  EXPECT_THAT(ids.example(0).ids, ElementsAre(5, 6, 2, 8));
  EXPECT_THAT(ids.example(1).ids, ElementsAre(5, 6, 7, 8)) << "which nothing ended";
  tokenizer_ = nullptr;
  EXPECT_THAT(read("{\"input_ids\": [5, 6, 7, 2], \"labels\": [8]}").example(0).ids, ElementsAre(5, 6, 7, 8));
}

TEST_F(EncodePair, CountsAnswersThatAreEmpty) {
  const FileExamples whole = read_file(
      "{\"prompt\": \"p\", \"completion\": \"\"}\n"
      "{\"prompt\": \"\", \"completion\": \"x\"}\n"
      "{\"prompt\": \"\", \"completion\": \"x\"}\n");
  EXPECT_EQ(whole.examples, 3);
  EXPECT_EQ(whole.notes.count(Note::kEmptyAnswer).lines, 1);
  EXPECT_EQ(whole.duplicates, 1);
  EXPECT_THAT(whole.dataset.example(0).ids, ElementsAre('p', 2, 2));
  EXPECT_THAT(whole.dataset.example(1).ids, ElementsAre(2, 'x', 2));
}

TEST_F(EncodePair, NamesFileAndLineOfWhatIsNoPair) {
  options_.vocabulary_size = 300;
  constexpr const char* kPairs = "an encoder and decoder learns sources and targets";
  const std::vector<std::pair<const char*, const char*>> mistakes = {
      {R"({"input_ids": [5, 6]})", "has input_ids but no labels"},
      {R"({"input_ids": [], "labels": [7]})", "input_ids is empty"},
      {R"({"input_ids": [5], "labels": []})", "labels is empty"},
      {R"({"input_ids": [5], "labels": [-100, -100]})", "labels is empty"},
      {R"({"input_ids": [5], "labels": [7, -100, 8]})", "labels has -100 between tokens"},
      {R"({"input_ids": [5], "labels": [-100, 8]})", "labels has -100 between tokens"},
      {R"({"input_ids": [300], "labels": [8]})", "token id 300"},
      {R"({"input_ids": [5], "labels": [300]})", "token id 300"},
      {R"({"input_ids": [5], "labels": [-1]})", "token id -1"},
      {R"({"input_ids": [-100, 5], "labels": [8]})", "token id -100"},
      {R"({"input_ids": [5], "labels": "8"})", "labels: expected a list"},
      {R"({"prompt": "p"})", "has prompt but no completion"},
      {R"({"prompt": "p", "completion": 5})", "completion: expected text"},
      {R"({"text": "x"})", kPairs},
      {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})", kPairs},
      {R"({"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]})", kPairs},
      {R"({"prompt": [{"role": "user", "content": "q"}],
           "completion": [{"role": "assistant", "content": "a"}]})",
       kPairs},
  };
  for (const auto& [written, expected] : mistakes) {
    std::string line = written;
    std::erase(line, '\n');
    EXPECT_THAT(refusal("\n" + line + "\n"), AllOf(HasSubstr(expected), HasSubstr(file_.string() + ":2"))) << line;
  }
  EXPECT_THAT(refusal(R"({"text": "x"})"),
              AllOf(HasSubstr(":1: is text, but "), HasSubstr("write prompt and completion")));
}

TEST_F(EncodePair, RefusesOptionsOfOneStream) {
  constexpr const char* kLine = R"({"prompt": "p", "completion": "x"})";
  options_.completion_only_loss = false;
  EXPECT_THAT(refusal(kLine), HasSubstr("completion_only_loss: false"));
  options_.completion_only_loss.reset();
  EXPECT_EQ(refusal(kLine), "");
  tokenizer_ = nullptr;
  EXPECT_THAT(refusal(kLine), HasSubstr("tokenizer"));
}

TEST_F(EncodePair, ThreadsChangeNothingAndTokensStayInMemory) {
  std::string lines;
  for (int i = 0; i < 4000; ++i) {
    lines += R"({"prompt": ")" + std::string(static_cast<size_t>(i % 90), 'p') + R"(", "completion": ")" +
             std::string(static_cast<size_t>(i % 37), 'x') + "\"}\n";
  }
  options_.max_length = 50;
  options_.max_target_length = 30;
  options_.threads = 1;
  const FileExamples alone = read_file(lines);
  EXPECT_EQ(alone.examples, 4000);
  EXPECT_GT(alone.dataset.truncation().cut_targets, 100);
  options_.threads = 5;
  options_.cache_folder = folder_ / "cache";
  const FileExamples together = read_file(lines);
  EXPECT_EQ(together.dataset.fingerprint(), alone.dataset.fingerprint());
  EXPECT_EQ(together.dataset.truncation().truncated, alone.dataset.truncation().truncated);
  EXPECT_EQ(together.dataset.truncation().cut_tokens, alone.dataset.truncation().cut_tokens);
  EXPECT_EQ(together.dataset.truncation().cut_targets, alone.dataset.truncation().cut_targets);
  EXPECT_EQ(together.duplicates, alone.duplicates);
  EXPECT_FALSE(fs::exists(options_.cache_folder));
}

}  // namespace
}  // namespace fathom::data
