// What the assistant says, in templates that mark it and in the same ones without the marks.
#include "chat/assistant_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "chat/border.h"
#include "chat/chat_template.h"
#include "tests/chat/conversation.h"

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const Json& golden() {
  static const Json kGolden = read_json(kTests / "golden.json");
  return kGolden;
}

std::string source_of(const std::string& style) { return read_file(kTests / "templates" / (style + ".jinja")); }

std::map<std::string, std::string> special_tokens() {
  return golden().at("special_tokens").get<std::map<std::string, std::string>>();
}

std::vector<std::string> said(const ChatTemplate& style, const Json& messages) {
  const RenderedChat chat = style.render_with_assistant(messages);
  std::vector<std::string> parts;
  for (const ByteRange& range : chat.assistant) parts.push_back(chat.text.substr(range.begin, range.end - range.begin));
  return parts;
}
std::vector<std::string> said_in(const std::string& style, const Json& messages) {
  return said(ChatTemplate(source_of(style), style, special_tokens()), messages);
}

std::string failure(const ChatTemplate& style, const Json& messages) {
  try {
    style.render_with_assistant(messages);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(AssistantTurns, AreThoseOfTheGenerationBlocksThatTheTemplateLost) {
  const std::regex tags(R"(\{%(-?)\s*(end)?generation\s*(-?)%\})");
  size_t compared = 0;
  for (const Json& row : golden().at("assistant")) {
    const auto style = row.at(0).get<std::string>();
    const std::string unmarked = std::regex_replace(source_of(style), tags, "{%$1 if true $3%}{% endif %}");
    ASSERT_EQ(unmarked.find("generation %"), std::string::npos);
    const RenderedChat chat = ChatTemplate(unmarked, style, special_tokens())
                                  .render_with_assistant(golden().at("conversations").at(row.at(1).get<std::string>()));
    std::vector<ByteRange> expected;
    for (const Json& range : row.at(2)) expected.push_back({range.at(0), range.at(1)});
    EXPECT_EQ(chat.assistant, expected) << row.dump() << "\n" << chat.text;
    ++compared;
  }
  EXPECT_GT(compared, 150u);
}

TEST(AssistantTurns, AreTheOuterOfGenerationBlocksInsideEachOther) {
  const ChatTemplate style("{% generation %}a{% generation %}b{% endgeneration %}c{% endgeneration %}d", "nested");
  EXPECT_THAT(said(style, conversation({{"user", "x"}})), ElementsAre("abc"));
}

TEST(AssistantTurns, BeginBehindTheGenerationPromptAndEndWithTheirToken) {
  const Json turns =
      conversation({{"system", "S"}, {"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "4 "}});
  EXPECT_THAT(said_in("chatml", turns), ElementsAre("2<|im_end|>", "4 <|im_end|>"));
  EXPECT_THAT(said_in("headers", turns), ElementsAre("2<|eot_id|>", "4<|eot_id|>"));
  EXPECT_THAT(said_in("brackets", turns), ElementsAre(" 2 </s>", " 4 </s>"));
  EXPECT_THAT(said_in("marks", turns), ElementsAre("2</s>", "4 </s>"));
  const Json two = conversation({{"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "2"}});
  EXPECT_THAT(said_in("turns", two), ElementsAre("2<end_of_turn>", "2<end_of_turn>"));
  EXPECT_THAT(said_in("colons", two), ElementsAre("2<｜end｜>", "2<｜end｜>"));
  const Json tool = conversation({{"user", "1"}, {"tool", "2"}, {"assistant", "3"}, {"user", "4"}, {"assistant", "5"}});
  EXPECT_THAT(said_in("colons", tool), ElementsAre("3<｜end｜>", "5<｜end｜>"));
  EXPECT_THAT(said_in("chatml", conversation({{"assistant", "1"}, {"user", "2"}})), ElementsAre("1<|im_end|>"));
}

TEST(AssistantTurns, AreFoundWhereEarlierOnesAreWrittenDifferently) {
  Json turns = conversation({{"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "4"}});
  turns[1]["reasoning_content"] = "hm";
  turns[3]["reasoning_content"] = "so";
  EXPECT_THAT(said_in("thinking", turns), ElementsAre("2<|im_end|>", "<think>\nso\n</think>\n\n4<|im_end|>"));
}

TEST(AssistantTurns, DoNotBeginInsideATagThatBeginsLikeThePrompts) {
  const ChatTemplate thinks(
      "{% for m in messages %}{{ '<|' ~ m.role ~ '|>\n' ~ m.content ~ '<|end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|assistant|>\n<think>\n' }}{% endif %}",
      "thinks");
  const Json turns = conversation({{"user", "a"},
                                   {"assistant", "<table>"},
                                   {"user", "b"},
                                   {"assistant", "<think>\nc</think>d"},
                                   {"user", "e"},
                                   {"assistant", "f"}});
  EXPECT_THAT(said(thinks, turns), ElementsAre("<table><|end|>", "c</think>d<|end|>", "f<|end|>"));
}

TEST(AssistantTurns, KeepTheLineBreakThatEndsThemWithoutAToken) {
  const std::string lines = "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ '\n' }}{% endfor %}";
  const ChatTemplate plain(lines + "{% if add_generation_prompt %}assistant: {% endif %}", "plain");
  const Json turns = conversation({{"user", "a"}, {"assistant", "b "}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_THAT(said(plain, turns), ElementsAre("b \n", "d\n"));
}

TEST(AssistantTurns, ThatSayNothingEndWithTheirTokenToo) {
  const Json turns = conversation({{"user", "a"}, {"assistant", ""}, {"user", "c"}, {"assistant", " "}});
  EXPECT_THAT(said_in("chatml", turns), ElementsAre("<|im_end|>", " <|im_end|>"));
  const ChatTemplate plain(
      "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant:{% endif %}",
      "plain");
  EXPECT_THAT(said(plain, turns), ElementsAre("\n", " \n"));
}

// The messages by their places, so that the template goes through a list of its own.
const char kByPlace[] =
    "{% for i in range(messages | length) %}{{ messages[i].role ~ ':' ~ messages[i].content ~ '$\n' }}"
    "{% if rewrites and loop.last %}!{% endif %}{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}";

TEST(AssistantTurns, AreFoundByBeginningsWhereTheTemplateDoesNotVisitMessages) {
  const Json turns = conversation({{"user", "a"}, {"assistant", "b"}, {"user", "c"}, {"assistant", "d"}});
  const ChatTemplate style(kByPlace, "by place");
  EXPECT_THAT(said(style, turns), ElementsAre("b$", "d$"));
  const ChatTemplate rewriting(std::string("{% set rewrites = true %}") + kByPlace, "rewriting");
  const std::string error = failure(rewriting, turns);
  EXPECT_THAT(error, HasSubstr("rewriting: message 2 is written differently when more messages follow it"));
  EXPECT_THAT(error, HasSubstr("{% generation %}"));
}

TEST(AssistantTurns, CostAsMuchAsTheConversationIsLong) {
  Json turns = Json::array();
  for (int i = 0; i < 4000; ++i) {
    turns.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::to_string(i)}});
  }
  EXPECT_EQ(said_in("chatml", turns).size(), 2000u);
  EXPECT_THAT(failure(ChatTemplate(kByPlace, "by place"), turns), HasSubstr("takes more than 10000000 steps"));
}

TEST(EndOfPrompt, IsNeverInsideAWordOrTag) {
  EXPECT_EQ(end_of_prompt("a: ", "a: b"), 3u);
  EXPECT_EQ(end_of_prompt("", "b"), 0u);
  EXPECT_EQ(end_of_prompt("<a>\n<think>", "<a>\n<table>"), 4u);
  EXPECT_EQ(end_of_prompt("<a>\n<think>", "<a>\nthe"), 4u);
  EXPECT_EQ(end_of_prompt("say: think", "say: thanks"), 5u);
  EXPECT_EQ(end_of_prompt("[INST] a [/INST]", "[INST] a [/IN"), 9u);
  EXPECT_EQ(end_of_prompt("é", "è"), 0u);
}

}  // namespace
}  // namespace fathom::chat
