// Conversations: transformers' tokens and masks (scripts/golden/conversations.py), ShareGPT's names, malformed turns.
#include "data/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "base/file.h"
#include "base/json_value.h"
#include "data/read.h"
#include "tests/data/byte_tokenizer.h"

namespace fathom::data {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ConversationTest : public ::testing::Test {
 protected:
  ConversationTest() {
    options_.open_chat = [this] { return chat_; };
  }
  ~ConversationTest() override { fs::remove(file_); }

  Dataset read(const std::string& lines) {
    std::ofstream(file_, std::ios::binary) << lines;
    return read_dataset(file_, tokenizer_, options_);
  }
  std::string refusal(const std::string& lines) {
    try {
      read(lines);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // The text with what counts for the loss in brackets.
  std::string marked(const std::string& line) {
    const Example example = read(line).example(0);
    std::string text;
    bool inside = false;
    for (size_t i = 0; i < example.ids.size(); ++i) {
      const bool counts = example.labels[i] != kIgnored;
      if (counts != inside) text += counts ? "[" : "]";
      inside = counts;
      text += tokenizer_->piece(example.ids[i]);
    }
    return inside ? text + "]" : text;
  }

  testing::ByteTokenizer bytes_;
  const tokenizer::Tokenizer* tokenizer_ = &bytes_;
  std::optional<chat::ChatTemplate> chat_ = chat::ChatTemplate(
      "{% for m in messages %}{{ m.role[0] + ':' + m.content + '$' }}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}",
      "a template");
  DatasetOptions options_;
  const fs::path file_ = fs::temp_directory_path() / ("fathom-conversation-" + std::to_string(getpid()));
};

constexpr const char* kTwoTurns =
    R"({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "x"},)"
    R"( {"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]})";

TEST_F(ConversationTest, TokensAndMasksAreThoseOfTransformers) {
  const fs::path folder = fs::path(FATHOM_SOURCE_DIR) / "tests/data/golden/conversations";
  const auto tokenizer = tokenizer::Tokenizer::open(folder);
  tokenizer_ = tokenizer.get();
  chat_ = chat::ChatTemplate::open(folder);
  std::istringstream cases(read_file(folder / "expected.jsonl"));
  int count = 0;
  for (std::string text; std::getline(cases, text); ++count) {
    const Json expected = parse_json(text, "expected.jsonl");
    options_.assistant_only_loss = expected["key"] == "assistant_only_loss";
    const auto ids = expected["ids"].get<std::vector<int32_t>>(), mask = expected["mask"].get<std::vector<int32_t>>();
    const bool learns = std::find(mask.begin(), mask.end(), 1) != mask.end();
    if (!learns) {
      EXPECT_THAT(refusal(expected["line"].dump()), HasSubstr("no example has a token to learn"));
      continue;
    }
    const Example example = read(expected["line"].dump()).example(0);
    EXPECT_EQ(example.ids, ids) << text;
    for (size_t i = 0; i < ids.size(); ++i) {
      EXPECT_EQ(example.labels[i], mask[i] == 1 ? ids[i] : kIgnored) << "token " << i << " of " << text;
    }
  }
  EXPECT_EQ(count, 9);
}

TEST_F(ConversationTest, CountsEverythingUnlessToldOtherwise) {
  EXPECT_EQ(marked(kTwoTurns), "[u:p$a:x$u:q$a:y$]");
  options_.assistant_only_loss = true;  // the template has no generation blocks
  EXPECT_EQ(marked(kTwoTurns), "u:p$a:[x$]u:q$a:[y$]");
}

TEST_F(ConversationTest, PromptAndCompletionOfMessages) {
  const std::string line =
      R"({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "x"}]})";
  EXPECT_EQ(marked(line), "u:p$a:[x$]");
  options_.completion_only_loss = false;
  EXPECT_EQ(marked(line), "[u:p$a:x$]");
  EXPECT_THAT(refusal(R"({"prompt": [{"role": "user", "content": "p"}], "completion": "x"})"),
              HasSubstr("completion: expected a list of messages, got string"));
}

TEST_F(ConversationTest, ShareGptHasNamesOfItsOwn) {
  options_.assistant_only_loss = true;
  EXPECT_EQ(
      marked(R"({"system": "s", "conversations": [{"from": "human", "value": "p"}, {"from": "gpt", "value": "x"},)"
             R"( {"from": "tool", "value": "t"}, {"from": "gpt", "value": "y"}]})"),
      "s:s$u:p$a:[x$]t:t$a:[y$]");
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "bard", "value": "x"}]})"),
              HasSubstr(":1: conversations[0].from: expected human, gpt, system or tool, got 'bard'"));
  EXPECT_THAT(refusal(R"({"conversations": [{"from": "gpt"}]})"), HasSubstr("conversations[0] has no value"));
}

TEST_F(ConversationTest, ToolsReachTheTemplate) {
  chat_ = chat::ChatTemplate("{{ tools | length }}{{ style }}", "a template");
  EXPECT_EQ(marked(R"({"messages": [{"role": "user", "content": "p"}], "tools": "[1, 2, 3]",)"
                   R"( "chat_template_kwargs": {"style": "b"}})"),
            "[3b]");
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "p"}], "tools": {}})"),
              HasSubstr("tools: expected"));
}

TEST_F(ConversationTest, NamesFileLineAndTurnOfEveryMistake) {
  const std::vector<std::pair<const char*, const char*>> mistakes = {
      {R"({"messages": []})", "messages is empty"},
      {R"({"messages": "x"})", "messages: expected a list of messages, got string"},
      {R"({"messages": ["x"]})", "messages[0]: expected an object, got string"},
      {R"({"messages": [{"content": "x"}]})", "messages[0] has no role"},
      {R"({"messages": [{"role": "user"}]})", "messages[0] has no content"},
      {R"({"messages": [{"role": "user", "content": null}]})", "messages[0].content: expected text, got null"},
      {R"({"messages": [{"role": "user", "content": ["x"]}]})",
       "messages[0].content: expected text, got a list of parts"},
      {R"({"messages": [{"role": "User", "content": "x"}]})", "messages[0].role: expected system, developer, user,"},
      {R"({"messages": [{"role": 5, "content": "x"}]})", "messages[0].role: expected text, got number"},
  };
  for (const auto& [line, expected] : mistakes) {
    const std::string message = refusal(std::string(kTwoTurns) + "\n" + line + "\n");
    EXPECT_THAT(message, HasSubstr(file_.string() + ":2: " + expected)) << line;
  }
}

TEST_F(ConversationTest, RefusesSettingsAndTemplatesThatDoNotFit) {
  options_.completion_only_loss = true;
  EXPECT_THAT(refusal(kTwoTurns), HasSubstr("a conversation has no completion"));
  options_.completion_only_loss.reset();
  options_.assistant_only_loss = true;
  chat_ = chat::ChatTemplate("{{ raise_exception('roles must alternate') }}", "a template");
  EXPECT_THAT(refusal(kTwoTurns), HasSubstr("roles must alternate"));
  chat_.reset();
  EXPECT_THAT(refusal(kTwoTurns), HasSubstr("there is no chat template for it; take the instruction-tuned model's"));
}

TEST_F(ConversationTest, AWeightNeedsATemplateThatTellsWhoSpeaks) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "p"}, {"role": "assistant", "content": "x", "weight": 0},)"
      R"( {"role": "user", "content": "q"}, {"role": "assistant", "content": "y"}]})";
  EXPECT_EQ(marked(line), "[u:p$a:]x$[u:q$a:y$]");
  options_.assistant_only_loss = true;
  EXPECT_EQ(marked(line), "u:p$a:x$u:q$a:[y$]");
  // Blocks of which nobody knows the message: two of three answers, in a loop over numbers.
  chat_ = chat::ChatTemplate(
      "{% for i in range(messages | length) %}{% generation %}{{ messages[i].content }}{% endgeneration %}{% endfor %}",
      "a template");
  EXPECT_THAT(refusal(line), HasSubstr("it cannot be told which message it is of"));
}

TEST_F(ConversationTest, SpecialTokensStayTextInsideWhatIsSaid) {
  const std::string line =
      R"({"messages": [{"role": "user", "content": "p$a:no"}, {"role": "assistant", "content": "x$"}]})";
  options_.assistant_only_loss = true;
  const auto ends = [&] {
    const std::vector<int32_t> ids = read(line).example(0).ids;
    return std::count(ids.begin(), ids.end(), 2);
  };
  EXPECT_EQ(ends(), 4);
  options_.split_special_tokens = true;
  EXPECT_EQ(ends(), 2) << "the template's own";
  EXPECT_EQ(marked(line), "u:p$a:no$a:[x$$]");
  options_.assistant_only_loss = false;
  chat_ = chat::ChatTemplate("{% for m in messages %}{{ m.content.split('$')[0] + '$' }}{% endfor %}", "a template");
  EXPECT_THAT(refusal(line), HasSubstr(":1: split_special_tokens: true, but the chat template writes something else"));
}

TEST_F(ConversationTest, WhatEveryLineLacksIsToldOnce) {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += std::string(kTwoTurns) + "\n";
  const auto expect_once = [&](const std::string& expected) {
    const std::string message = refusal(lines);
    EXPECT_THAT(message, HasSubstr(file_.string() + ":1: " + expected));
    EXPECT_THAT(message, Not(HasSubstr(file_.string() + ":2")));
    EXPECT_THAT(message, Not(HasSubstr("more malformed lines")));
  };
  chat_.reset();
  expect_once("is a conversation");
  const std::string endless = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";
  chat_ = chat::ChatTemplate(endless, "endless");
  expect_once("endless:1: the template takes more than 10000000 steps");
  chat_ = chat::ChatTemplate("{% for i in range(99999) %}{{ 'x' * 99999 }}{% endfor %}", "large");
  expect_once("large:1: the template makes more than 268435456 bytes");
}

// It takes some eight renderings more.
TEST_F(ConversationTest, TheShareOfTheAssistantIsNotToldWhereATemplateTakesLong) {
  const auto told = [&](int turns) {
    chat_ = chat::ChatTemplate(
        "{% for m in messages %}{{ m.role[0] + ':' + m.content + '$' }}{% endfor %}{% for i in range(" +
            std::to_string(turns) + ") %}{% endfor %}",
        "a template");
    std::ofstream(file_, std::ios::binary) << kTwoTurns << "\n";
    return read_file_examples(file_, &bytes_, options_).notes.told(1);
  };
  EXPECT_THAT(told(1), ::testing::ElementsAre(HasSubstr("are not the assistant's, in 1 conversation:")));
  EXPECT_THAT(told(99'999), ::testing::IsEmpty());
}

TEST_F(ConversationTest, AConversationAmongTextsIsTheLinesFault) {
  const std::string text = R"({"prompt": "p", "completion": "c"})";
  const std::string turns =
      R"({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content": "c"}]})";
  EXPECT_THAT(refusal(text + "\n" + turns + "\n"), HasSubstr(file_.string() + ":2: is a conversation, earlier"));
}

}  // namespace
}  // namespace fathom::data
