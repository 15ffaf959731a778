// Keys of other tools' data files: obeyed as TRL and transformers do (scripts/golden/data_files.py), told, or refused.
#include "data/line_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/json_value.h"
#include "data/read.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using config::DatasetFormat;
using ::testing::HasSubstr;

std::vector<Json> golden_cases() {
  std::istringstream lines(read_file(FATHOM_SOURCE_DIR "/tests/data/golden/data_files.jsonl"));
  std::vector<Json> cases;
  for (std::string line; std::getline(lines, line);) cases.push_back(parse_json(line, "data_files.jsonl"));
  return cases;
}

class DataFile : public ::testing::Test {
 protected:
  ~DataFile() override { fs::remove(file_); }

  FileExamples read(const Json& line, const Json& keys = Json::object(), const std::string& source = "") {
    DatasetOptions options;
    options.assistant_only_loss = keys.value("assistant_only_loss", false);
    options.split_special_tokens = keys.value("split_special_tokens", false);
    if (keys.contains("completion_only_loss")) options.completion_only_loss = keys["completion_only_loss"].get<bool>();
    if (keys.contains("dataset_format")) options.format = DatasetFormat::kText;
    const std::map<std::string, std::string> tokens = {{"bos_token", "<|begin|>"}, {"eos_token", "<|end|>"}};
    options.open_chat = [&] {
      return source.empty() ? chat::ChatTemplate::open(folder_) : chat::ChatTemplate(source, "a template", tokens);
    };
    std::string text = line.dump();
    if (line.contains("text") && line["text"].is_number_float()) text = R"({"text": NaN})";  // dump() writes null
    std::ofstream(file_, std::ios::binary) << text << "\n";
    return read_file_examples(file_, tokenizer_.get(), options);
  }
  // What reading the case's line says; nothing else for what is refused.
  std::string refusal(const Json& line, const Json& keys = Json::object(), const std::string& source = "") {
    try {
      read(line, keys, source);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  const fs::path folder_ = FATHOM_SOURCE_DIR "/tests/data/golden/conversations";
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer_ = tokenizer::Tokenizer::open(folder_);
  const fs::path file_ = fs::temp_directory_path() / ("fathom-line-keys-" + std::to_string(getpid()) + ".jsonl");
};

TEST_F(DataFile, IsObeyedToldOrRefused) {
  int obeyed = 0, told = 0, refused = 0;
  for (const Json& each : golden_cases()) {
    SCOPED_TRACE(each["name"].get<std::string>());
    const Json keys = each.value("options", Json::object());
    const auto source = each.value("template", std::string());
    if (each.contains("refused")) {
      ++refused;
      EXPECT_THAT(refusal(each["line"], keys, source),
                  HasSubstr(file_.string() + ":1: " + each["refused"].get<std::string>()));
      continue;
    }
    FileExamples read;
    ASSERT_NO_THROW(read = this->read(each["line"], keys, source));
    std::string all;
    for (const std::string& note : read.notes.told(read.examples)) all += note + "\n";
    if (each.contains("ids")) {
      ++obeyed;
      EXPECT_EQ(read.dataset.example(0).ids, each["ids"].get<std::vector<int32_t>>());
      EXPECT_EQ(read.dataset.example(0).labels, each["labels"].get<std::vector<int32_t>>());
      EXPECT_EQ(read.notes.count(Note::kUnreadKey).lines + read.notes.count(Note::kUnwritten).lines, 0) << all;
    }
    told += each.contains("told") ? 1 : 0;
    for (const Json& words : each.value("told", Json::array())) EXPECT_THAT(all, HasSubstr(words.get<std::string>()));
  }
  EXPECT_GE(obeyed, 40);
  EXPECT_GE(told, 12);
  EXPECT_GE(refused, 30);
}

// A line of the format that has the key, for the rows of which no case is left to forget.
Json smallest_line(DatasetFormat format, KeyPlace place, const std::string& key, const Json& value) {
  Json user = {{"role", "user"}, {"content", "p"}}, assistant = {{"role", "assistant"}, {"content", "c"}};
  Json human = {{"from", "human"}, {"value", "p"}}, gpt = {{"from", "gpt"}, {"value", "c"}};
  if (place == KeyPlace::kMessage) assistant[key] = value;
  if (place == KeyPlace::kTurn) gpt[key] = value;
  Json line;
  switch (format) {
    case DatasetFormat::kText:
      line = {{"text", "two"}};
      break;
    case DatasetFormat::kPromptCompletion:
      line = {{"prompt", Json::array({user})}, {"completion", Json::array({assistant})}};
      break;
    case DatasetFormat::kTokenIds:
      line = {{"input_ids", {1, 2, 3}}};
      break;
    case DatasetFormat::kMessages:
      line = {{"messages", {user, assistant}}};
      break;
    case DatasetFormat::kShareGpt:
      line = {{"conversations", {human, gpt}}};
      break;
    default:
      line = {{"instruction", "p"}, {"output", "c"}};
  }
  if (place == KeyPlace::kLine) line[key] = value;
  return line;
}

TEST_F(DataFile, RefusesEveryKeyThatTheTableRefusesBesideEachOfItsFormats) {
  int refused = 0;
  for (const LineKey& known : line_keys()) {
    if (known.handling != KeyHandling::kRefused) continue;
    for (const auto format : {DatasetFormat::kText, DatasetFormat::kPromptCompletion, DatasetFormat::kTokenIds,
                              DatasetFormat::kMessages, DatasetFormat::kShareGpt, DatasetFormat::kAlpaca}) {
      if ((known.formats & bit_of(format)) == 0) continue;
      const std::string key(known.key);
      EXPECT_THAT(refusal(smallest_line(format, known.place, key, "held")),
                  HasSubstr(key + ": " + std::string(known.done)));
      for (const Json& nothing : {Json(nullptr), Json(""), Json::array(), Json::object()}) {
        EXPECT_EQ(refusal(smallest_line(format, known.place, key, nothing)), "") << key;
      }
      ++refused;
    }
  }
  EXPECT_GT(refused, 40);
}

// What the table says is obeyed, handed on or passed over is in a case that says how, and so is each of its formats.
TEST(LineKeys, AreEachInACase) {
  std::set<std::pair<KeyPlace, std::string>> seen;
  for (const Json& each : golden_cases()) {
    const auto see = [&](KeyPlace place, const Json& object) {
      for (const auto& [key, value] : object.items()) seen.emplace(place, key);
    };
    see(KeyPlace::kLine, each["line"]);
    for (const char* list : {"messages", "prompt", "completion", "conversations"}) {
      const Json items = each["line"].value(list, Json());
      if (!items.is_array()) continue;
      for (const Json& item : items) {
        see(list == std::string("conversations") ? KeyPlace::kTurn : KeyPlace::kMessage, item);
      }
    }
  }
  for (const LineKey& known : line_keys()) {
    if (known.handling == KeyHandling::kRefused) continue;
    EXPECT_TRUE(seen.contains({known.place, std::string(known.key)}) || known.key == "decoder_attention_mask")
        << known.key;
  }
}

TEST(LineKeys, AreThoseOfThePage) {
  EXPECT_THAT(read_file(FATHOM_SOURCE_DIR "/docs/data.md"), HasSubstr(line_keys_page()))
      << "docs/data.md is stale; its table is\n"
      << line_keys_page();
}

}  // namespace
}  // namespace fathom::data
