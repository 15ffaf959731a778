// Conversations against transformers' apply_chat_template (golden.json, from scripts/golden/chat_templates.py), what
// the assistant says in them, and the files that a template comes from.
#include "chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"

namespace fathom::chat {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kTests = fs::path(FATHOM_SOURCE_DIR) / "tests" / "chat";

ChatTemplate open_style(const std::string& name) {
  const Json golden = read_json(kTests / "golden.json");
  const fs::path path = kTests / "templates" / (name + ".jinja");
  return ChatTemplate(read_file(path), name, golden.at("special_tokens").get<std::map<std::string, std::string>>());
}

std::vector<std::string> said(const RenderedChat& chat) {
  std::vector<std::string> parts;
  for (const ByteRange& range : chat.assistant) parts.push_back(chat.text.substr(range.begin, range.end - range.begin));
  return parts;
}

Json conversation(std::initializer_list<std::pair<const char*, const char*>> turns) {
  Json messages = Json::array();
  for (const auto& [role, content] : turns) messages.push_back({{"role", role}, {"content", content}});
  return messages;
}

template <typename Action>
std::string failure(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChatTemplate, WritesWhatTransformersWrites) {
  const Json golden = read_json(kTests / "golden.json");
  ASSERT_GT(golden.at("cases").size(), 600u);
  std::map<std::string, ChatTemplate> styles;
  for (const Json& row : golden.at("cases")) {
    const auto style = row.at(0).get<std::string>(), name = row.at(1).get<std::string>();
    const bool has_tools = row.at(2).get<bool>(), prompts = row.at(3).get<bool>();
    if (!styles.contains(style)) styles.emplace(style, open_style(style));
    Json variables = Json::object();
    if (has_tools) variables["tools"] = golden.at("tools");
    std::string text;
    const std::string error =
        failure([&] { text = styles.at(style).render(golden.at("conversations").at(name), prompts, variables).text; });
    const std::string where = style + ", " + name + (has_tools ? ", tools" : "") + (prompts ? ", prompt" : "");
    if (row.at(4).is_null()) {
      EXPECT_THAT(error, ::testing::StartsWith(style + ":")) << where;
    } else {
      EXPECT_EQ(error, "no error") << where;
      EXPECT_EQ(text, row.at(4).get<std::string>()) << where;
    }
  }
}

TEST(ChatTemplate, FindsGenerationBlocksAsTransformers) {
  const Json golden = read_json(kTests / "golden.json");
  ASSERT_GT(golden.at("assistant").size(), 10u);
  for (const Json& row : golden.at("assistant")) {
    const Json& messages = golden.at("conversations").at(row.at(1).get<std::string>());
    const RenderedChat chat = open_style(row.at(0)).render_with_assistant(messages);
    std::vector<ByteRange> expected;
    for (const Json& range : row.at(2)) expected.push_back({range.at(0), range.at(1)});
    EXPECT_EQ(chat.assistant, expected) << row.dump();
  }
}

TEST(ChatTemplate, FindsWhatTheAssistantSaysByRenderingPrefixes) {
  const Json turns =
      conversation({{"system", "S"}, {"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "4 "}});
  EXPECT_THAT(said(open_style("chatml").render_with_assistant(turns)), ElementsAre("2<|im_end|>", "4 <|im_end|>"));
  EXPECT_THAT(said(open_style("headers").render_with_assistant(turns)), ElementsAre("2<|eot_id|>", "4<|eot_id|>"));
  EXPECT_THAT(said(open_style("brackets").render_with_assistant(turns)), ElementsAre(" 2 </s>", " 4 </s>"));
  EXPECT_THAT(said(open_style("marks").render_with_assistant(turns)), ElementsAre("2</s>", "4 </s>"));
  const Json two = conversation({{"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "2"}});
  EXPECT_THAT(said(open_style("turns").render_with_assistant(two)), ElementsAre("2<end_of_turn>", "2<end_of_turn>"));
  EXPECT_THAT(said(open_style("colons").render_with_assistant(two)), ElementsAre("2<｜end｜>", "2<｜end｜>"));
}

TEST(ChatTemplate, KeepsTheLineBreakThatEndsATurnWithoutAToken) {
  const ChatTemplate plain(
      "{% for m in messages %}{{ m.role ~ ': ' ~ m.content ~ '\n' }}{% endfor %}"
      "{% if add_generation_prompt %}assistant: {% endif %}",
      "plain");
  const Json turns = conversation({{"user", "a"}, {"assistant", "b "}, {"user", "c"}, {"assistant", "d"}});
  EXPECT_THAT(said(plain.render_with_assistant(turns)), ElementsAre("b \n", "d\n"));
}

TEST(ChatTemplate, RefusesToGuessWhatTheAssistantSays) {
  Json turns = conversation({{"user", "1"}, {"assistant", "2"}, {"user", "3"}, {"assistant", "4"}});
  turns[1]["reasoning_content"] = "hm";
  const std::string error = failure([&] { open_style("thinking").render_with_assistant(turns); });
  EXPECT_THAT(error, HasSubstr("thinking: message 2 is written differently when more messages follow it"));
  EXPECT_THAT(error, HasSubstr("{% generation %}"));
  const ChatTemplate hidden("{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}", "t");
  EXPECT_THAT(failure([&] { hidden.render_with_assistant(turns); }), HasSubstr("inside a macro or set block"));
}

TEST(ChatTemplate, TellsOneTimeInAllRenderings) {
  ChatTemplate dated("{{ strftime_now('%d %B %Y, %H:%M:%S%z|%Z|%j %a') }}", "t");
  dated.set_now(std::chrono::local_days{std::chrono::year(2024) / 2 / 29} + std::chrono::seconds(3 * 3600 + 5));
  const Json turns = conversation({{"user", "x"}});
  EXPECT_EQ(dated.render(turns, false).text, "29 February 2024, 03:00:05||060 Thu");
  const ChatTemplate copy = dated;
  EXPECT_EQ(copy.render_with_assistant(turns).text, "29 February 2024, 03:00:05||060 Thu");
}

TEST(ChatTemplate, RefusesWhatIsNoConversation) {
  const ChatTemplate style = open_style("chatml");
  for (const Json& messages : {Json::array(), Json::object(), Json("a"), Json::array({1})}) {
    EXPECT_THAT(failure([&] { style.render(messages, false); }), HasSubstr("chatml: expected")) << messages;
  }
}

class ChatFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("fathom_chat_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  void put(const std::string& name, const std::string& text) { std::ofstream(folder_ / name) << text; }
  std::string rendered() {
    const auto found = ChatTemplate::open(folder_);
    return found ? found->render(conversation({{"user", "x"}}), false).text : "none";
  }
  fs::path folder_;
};

TEST_F(ChatFolder, HoldsTheTemplateInOneOfTwoFiles) {
  EXPECT_EQ(rendered(), "none");
  put("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_EQ(rendered(), "none");
  put("special_tokens_map.json", R"({"bos_token": {"content": "<b>"}, "eos_token": "</b>"})");
  put("tokenizer_config.json",
      R"({"chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}", "eos_token": "</s>"})");
  EXPECT_EQ(rendered(), "<b>x</s>");
  put("tokenizer_config.json",
      R"({"chat_template": [{"name": "rag", "template": "r"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(rendered(), "d");
  put("chat_template.jinja", "file {{ messages[0].content }}\n");
  EXPECT_EQ(rendered(), "file x");
}

TEST_F(ChatFolder, IsRefusedWithItsFileAndLine) {
  put("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_THAT(failure([&] { rendered(); }),
              HasSubstr("tokenizer_config.json: chat_template: none of the templates is named"));
  put("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(failure([&] { rendered(); }), HasSubstr("expected a template as text"));
  put("chat_template.jinja", "a\n{% if %}");
  EXPECT_THAT(failure([&] { rendered(); }), HasSubstr("chat_template.jinja:2: "));
}

}  // namespace
}  // namespace fathom::chat
