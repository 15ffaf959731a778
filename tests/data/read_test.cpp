// Files through blocks, threads and kept tokens: the same examples whichever way, and what is said of malformed lines.
#include "data/read.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/split_mix.h"
#include "data/block_reader.h"
#include "data/token_file.h"
#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ReadTest : public ::testing::Test {
 protected:
  ReadTest() { fs::create_directories(folder_); }
  ~ReadTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& content) const {
    fs::path file = folder_ / "data.jsonl";
    std::ofstream(file, std::ios::binary) << content;
    return file;
  }
  std::string refusal(const std::string& content) const {
    try {
      read_dataset(write(content), &bytes_, options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  testing::ByteTokenizer bytes_;
  DatasetOptions options_;
  const fs::path folder_ = fs::temp_directory_path() / ("fathom-read-" + std::to_string(getpid()));
};

std::string random_lines(int count, uint64_t seed) {
  std::string lines;
  SplitMix64 random(seed);
  for (int line = 0; line < count; ++line) {
    const auto word = [&] { return std::string(random.below(300), static_cast<char>('a' + random.below(20))); };
    lines += "{\"prompt\": \"" + word() + "\", \"completion\": \"" + word() + "\"}\n";
    if (random.below(9) == 0) lines += " \r\n";
  }
  return lines;
}

TEST_F(ReadTest, ThreadsAndKeptTokensChangeNothing) {
  const fs::path file = write(random_lines(3000, 5));  // about fifteen pieces
  options_.max_length = 200;
  options_.threads = 1;
  const FileExamples alone = read_file_examples(file, &bytes_, options_);
  EXPECT_EQ(alone.examples, 3000);
  EXPECT_GT(alone.dataset.truncation().truncated, 100);
  options_.threads = 5;
  EXPECT_EQ(read_dataset(file, &bytes_, options_).fingerprint(), alone.dataset.fingerprint());
  options_.cache_folder = folder_ / "cache";
  for (const char* run : {"made", "opened"}) {
    const FileExamples kept = read_file_examples(file, run == std::string("made") ? &bytes_ : nullptr, options_);
    EXPECT_EQ(kept.dataset.fingerprint(), alone.dataset.fingerprint()) << run;
    EXPECT_EQ(kept.dataset.truncation().cut_targets, alone.dataset.truncation().cut_targets);
    EXPECT_EQ(kept.duplicates, alone.duplicates);
    for (int64_t row = 0; row < kept.dataset.size(); row += 97) {
      EXPECT_EQ(kept.dataset.example(row).ids, alone.dataset.example(row).ids);
      EXPECT_EQ(kept.dataset.example(row).labels, alone.dataset.example(row).labels);
    }
  }
}

TEST_F(ReadTest, TellsALongTextFromAnotherFormat) {
  const std::string text((size_t{32} << 20) + 1, 'a');
  EXPECT_THAT(refusal(R"({"text": ")" + text + "\"}\n"), HasSubstr("of more than 32 MiB; split its text into several"));
  EXPECT_THAT(refusal(text), HasSubstr("of more than 32 MiB; is this a file of JSON lines?"));
}

TEST_F(ReadTest, TokensAreMadeAnewForOtherFilesAndSettingsAndAfterDamage) {
  options_.cache_folder = folder_ / "cache";
  const auto kept = [&] { return std::distance(fs::directory_iterator(options_.cache_folder), {}); };
  read_dataset(write(random_lines(20, 1)), &bytes_, options_);
  EXPECT_EQ(kept(), 1);
  read_dataset(write(random_lines(20, 2)), &bytes_, options_);
  EXPECT_EQ(kept(), 2);
  options_.completion_only_loss = false;
  const std::string whole = read_dataset(write(random_lines(20, 2)), &bytes_, options_).fingerprint();
  EXPECT_EQ(kept(), 3);
  options_.identity = "another tokenizer";
  read_dataset(write(random_lines(20, 2)), &bytes_, options_);
  EXPECT_EQ(kept(), 4);
  for (const auto& entry : fs::directory_iterator(options_.cache_folder)) fs::resize_file(entry.path(), 1000);
  EXPECT_EQ(read_dataset(write(random_lines(20, 2)), &bytes_, options_).fingerprint(), whole);
}

TEST_F(ReadTest, TokensThatCannotBeKeptAreHeldInMemory) {
  const fs::path file = write(random_lines(20, 1));
  const std::string expected = read_dataset(file, &bytes_, options_).fingerprint();
  options_.cache_folder = file / "a file is no folder";
  const FileExamples read = read_file_examples(file, &bytes_, options_);
  EXPECT_EQ(read.dataset.fingerprint(), expected);
  EXPECT_THAT(read.not_kept, AllOf(HasSubstr("cannot create"), HasSubstr("XDG_CACHE_HOME")));
  // A disk that is full after the first bytes.
  options_.cache_folder = folder_ / "full";
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit usual = {}, small = {};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  small = usual;
  small.rlim_cur = 1000;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const FileExamples held = read_file_examples(file, &bytes_, options_);
  ::setrlimit(RLIMIT_FSIZE, &usual);
  ::signal(SIGXFSZ, before);
  EXPECT_EQ(held.dataset.fingerprint(), expected);
  EXPECT_THAT(held.not_kept, HasSubstr("cannot write"));
  EXPECT_TRUE(fs::is_empty(options_.cache_folder));
}

TEST_F(ReadTest, NothingIsKeptOfAMalformedFile) {
  options_.cache_folder = folder_ / "cache";
  EXPECT_THAT(refusal(random_lines(20, 1) + "{\"text\": 5}\n"), HasSubstr(".jsonl:"));
  EXPECT_TRUE(fs::is_empty(options_.cache_folder));
}

TEST_F(ReadTest, TellsAHandfulOfMalformedLinesAndCountsTheRest) {
  std::string lines;
  for (int line = 1; line <= 4000; ++line) {
    lines += line % 100 == 7 ? "{\"text\": \"broken \xff\"}\n" : "{\"text\": \"a sound line\"}\n";
  }
  const std::string message = refusal(lines);
  EXPECT_THAT(message, AllOf(HasSubstr(".jsonl:7:18: not valid JSON"), HasSubstr("ill-formed UTF-8 byte"),
                             HasSubstr(".jsonl:407:18: "), HasSubstr("and 35 more malformed lines"),
                             Not(HasSubstr(".jsonl:507:"))));
}

TEST_F(ReadTest, AJsonArrayIsToldWithTheWayToConvertIt) {
  for (const char* text : {"[\n{\"text\": \"one\"}\n]\n", "\n  [{\"text\": \"one\"}]"}) {
    EXPECT_THAT(refusal(text), HasSubstr("data.jsonl: is a JSON array; expected one JSON object on each line")) << text;
  }
}

TEST_F(ReadTest, OtherFilesAreToldAsWhatTheyAre) {
  const std::pair<std::string, const char*> cases[] = {
      {"PAR1\x15\x04", "is a Parquet table; expected one JSON object on each line; convert it: python3 -c"},
      {"\x1f\x8b\x08", "is compressed by gzip; expected one JSON object on each line; unpack it: gunzip -k"},
      {std::string("\xff\xfe{\0", 4), "is a text in UTF-16; expected one JSON object on each line; convert it: iconv"},
      {"version https://git-lfs.github.com/spec/v1\n", "is a git-lfs pointer, not the file that it stands for"},
      {"Once upon a time.\n",
       "is plain text; expected one JSON object on each line; convert it, each line a sample: jq"},
      {"{\n  \"text\": \"a\"\n}\n",
       "is JSON over several lines; expected one JSON object on each line; convert it: jq"},
      {"{\"text\": \"caf\xe9\"}\n", "convert the file from its encoding: iconv -f ISO-8859-1"}};
  for (const auto& [text, told] : cases) EXPECT_THAT(refusal(text), HasSubstr(told)) << text;
  EXPECT_EQ(read_dataset(write("\xef\xbb\xbf{\"text\": \"one\"}\r\n"), &bytes_, options_).size(), 1);
}

TEST_F(ReadTest, OtherToolsKeysAreToldWithTheWayToRenameThem) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"prompt": "p", "chosen": "a", "rejected": "b"})", ":1: is preference data (chosen, rejected)"},
      {R"({"chosen": [], "rejected": []})", ":1: is preference data (chosen, rejected)"},
      {R"({"prompt": "p", "completion": "c", "label": true})", ":1: is preference data (completion, label)"},
      {R"({"question": "q", "answer": "a"})",
       "has question and answer, the keys of no format that can be read; rename them: jq -c '{prompt: .question, "
       "completion: .answer}' OLD > NEW"},
      {R"({"instruction": "i", "response": "r"})", "jq -c '{instruction, input: .context, output: .response}'"},
      {R"({"prompt": "p", "response": "r"})", "jq -c '{prompt, completion: .response}'"},
      {R"({"content": "c"})", ":1: has content, the keys of no format"},
      {R"({"prompt": "p"})", "has prompt but no completion; name what the lines hold with dataset_format"}};
  for (const auto& [line, told] : cases) EXPECT_THAT(refusal(line), HasSubstr(told)) << line;
  const std::string labelled = R"({"prompt": "p", "completion": "c", "label": 3})";
  EXPECT_EQ(read_dataset(write(labelled), &bytes_, options_).size(), 1) << "a class is no verdict";
}

TEST_F(ReadTest, CountsExamplesWithoutAnAnswer) {
  const std::string lines =
      "{\"prompt\": \"p\", \"completion\": \"\"}\n{\"prompt\": \"\", \"completion\": \"\"}\n"
      "{\"prompt\": \"\", \"completion\": \"c\"}\n";
  EXPECT_EQ(read_file_examples(write(lines), &bytes_, options_).notes.count(Note::kEmptyAnswer), (Notes::Count{2, 1}));
}

TEST_F(ReadTest, NotesAreKeptWithTheTokens) {
  std::string lines;
  for (int i = 0; i < 2000; ++i)
    lines += R"({"text": "a text of some length", "id": 5})"
             "\n";
  const Notes notes = read_file_examples(write(lines), &bytes_, options_).notes;
  EXPECT_EQ(notes.count(Note::kUnreadKey, "id"), (Notes::Count{2000, 1}));
  options_.cache_folder = folder_ / "cache";
  EXPECT_EQ(read_file_examples(write(lines), &bytes_, options_).notes, notes) << "made";
  EXPECT_EQ(read_file_examples(write(lines), nullptr, options_).notes, notes) << "opened";
}

TEST_F(ReadTest, TellsHowLongPromptsAreThatLeaveNothingToLearn) {
  options_.max_length = 3;
  EXPECT_THAT(
      refusal("{\"prompt\": \"four\", \"completion\": \"c\"}\n{\"prompt\": \"eleven more\", \"completion\": \"c\"}"),
      HasSubstr("no example has a token to learn within max_length 3: before the first one come 5 tokens and "
                "more, 12 of the longest prompt; raise max_length"));
}

TEST_F(ReadTest, TheFormatCanBeNamed) {
  const std::string line = R"({"text": "one", "instruction": "do", "output": "done"})";
  EXPECT_THAT(refusal(line),
              HasSubstr("mixes text with instruction and output; name what is meant with dataset_format"));
  options_.format = config::DatasetFormat::kText;
  EXPECT_EQ(read_dataset(write(line), &bytes_, options_).length(0), 5);
  EXPECT_THAT(refusal(R"({"prompt": "p", "completion": "c"})"), HasSubstr(":1: has no text"));
}

TEST_F(ReadTest, AlpacaLinesAreTheWellKnownPrompt) {
  const auto decoded = [&](const std::string& line) {
    const Example example = read_dataset(write(line), &bytes_, options_).example(0);
    std::string text;
    for (size_t i = 0; i < example.ids.size(); ++i) {
      if (i > 0 && example.labels[i] != kIgnored && example.labels[i - 1] == kIgnored) text += "|";
      text += bytes_.piece(example.ids[i]);
    }
    return text;
  };
  EXPECT_EQ(decoded(R"({"instruction": "Add.", "input": "", "output": " 3"})"),
            "Below is an instruction that describes a task. Write a response that appropriately completes the request."
            "\n\n### Instruction:\nAdd.\n\n### Response:| 3$");
  EXPECT_EQ(
      decoded(R"({"instruction": "Add.", "input": "1 2", "output": "3"})"),
      "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
      "response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
      "### Response:|3$");
  EXPECT_THAT(refusal(R"({"instruction": "x", "output": "y", "history": [["a", "b"]]})"), HasSubstr("history"));
  EXPECT_THAT(refusal(R"({"instruction": "x"})"), HasSubstr("has instruction but no output"));
}

TEST_F(ReadTest, CountsExamplesThatRepeat) {
  const std::string line = "{\"text\": \"same\"}\n";
  EXPECT_EQ(read_file_examples(write(line + "{\"text\": \"other\"}\n" + line + line), &bytes_, options_).duplicates, 2);
}

TEST(BlockReader, GivesWholeLinesWhateverTheBlock) {
  const fs::path file = fs::temp_directory_path() / ("fathom-blocks-" + std::to_string(getpid()));
  const std::string content = "a\n\nbcdefghijklmnopqrstuvwxyz\nxy\nlast";
  std::ofstream(file, std::ios::binary) << content;
  for (size_t block = 1; block < 50; ++block) {
    BlockReader reader(file, block);
    std::string all;
    for (std::string_view lines = reader.next(); !lines.empty(); lines = reader.next()) {
      all += lines;
      EXPECT_TRUE(lines.ends_with('\n') || all == content) << block;
    }
    EXPECT_EQ(all, content) << block;
  }
  fs::remove(file);
  EXPECT_THROW(BlockReader("/nonexistent"), Error);
  EXPECT_THROW(BlockReader("/tmp"), Error);
}

TEST(BlockReader, RefusesALineThatIsTooLongWhereverItIs) {
  const fs::path file = fs::temp_directory_path() / ("fathom-blocks-" + std::to_string(getpid()));
  const std::string line(33 << 20, 'x');
  for (const std::string& content : {line, "a\n" + line, line + "\nb", "a\n" + line + "\nb\n"}) {
    std::ofstream(file, std::ios::binary) << content;
    BlockReader reader(file);
    EXPECT_THROW(while (!reader.next().empty()), Error);
  }
  fs::remove(file);
}

TEST(Split, HoldsOutAShareOnceAndForAll) {
  std::vector<Example> examples;
  examples.reserve(100);
  for (int32_t i = 0; i < 100; ++i) examples.push_back({{i, i}, {i, i}});
  const Dataset dataset(examples);
  const Split first = split(dataset, 0.1, 7);
  EXPECT_EQ(first.held_out.size(), 10);
  EXPECT_EQ(first.kept.size(), 90);
  std::vector<bool> seen(100);
  for (const Dataset* part : {&first.kept, &first.held_out}) {
    int32_t last = -1;
    for (int64_t row = 0; row < part->size(); ++row) {
      const int32_t id = part->example(row).ids[0];
      EXPECT_GT(id, last) << "in the order of the file";
      EXPECT_FALSE(seen[static_cast<size_t>(id)]);
      seen[static_cast<size_t>(id)] = true;
      last = id;
    }
  }
  EXPECT_EQ(split(dataset, 0.1, 7).held_out.fingerprint(), first.held_out.fingerprint());
  EXPECT_NE(split(dataset, 0.1, 8).held_out.fingerprint(), first.held_out.fingerprint());
  EXPECT_EQ(split(dataset, 1e-9, 7).held_out.size(), 1);
  EXPECT_EQ(split(dataset, 0.9999, 7).kept.size(), 1);
  EXPECT_THROW(split(dataset.select({3}), 0.5, 7), Error);
}

TEST(Dataset, JoinsPartsAndKeepsLabelsOfTheirOwn) {
  const Dataset first({{{1, 2, 3}, {-100, 9, 3}}, {{4, 5}, {4, 5}}}), second({{{6, 7}, {-100, 7}}});
  const Dataset all = Dataset::join({first, Dataset(), second});
  ASSERT_EQ(all.size(), 3);
  EXPECT_EQ(all.example(0).ids, (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(all.example(0).labels, (std::vector<int32_t>{-100, 9, 3}));
  EXPECT_EQ(all.example(2).labels, (std::vector<int32_t>{-100, 7}));
  EXPECT_EQ(all.token_count(), 7);
  EXPECT_EQ(all.target_count(), 4);
  EXPECT_EQ(all.longest(), 3);
  EXPECT_EQ(all.cut(2).truncation().cut_targets, 1);
  EXPECT_THROW(all.example(3), std::out_of_range);
}

}  // namespace
}  // namespace fathom::data
