// Conversations against transformers' apply_chat_template (golden.json, from scripts/golden/chat_templates.py), what
// the assistant says in them, and the files that a template comes from.
#include "chat/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/chat/conversation.h"

namespace fathom::chat {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

ChatTemplate open_style(const std::string& name) {
  const Json golden = read_json(kTests / "golden.json");
  const fs::path path = kTests / "templates" / (name + ".jinja");
  return ChatTemplate(read_file(path), name, golden.at("special_tokens").get<std::map<std::string, std::string>>());
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
  ASSERT_GT(golden.at("cases").size(), 2000u);
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

TEST(ChatTemplate, RefusesHiddenGenerationBlocks) {
  const ChatTemplate hidden("{% set x %}{% generation %}a{% endgeneration %}{% endset %}{{ x }}", "t");
  EXPECT_THAT(failure([&] {
                hidden.render_with_assistant(conversation({{"user", "1"}}));
              }),
              HasSubstr("inside a macro or set block"));
}

TEST(ChatTemplate, TellsOneTimeInAllRenderings) {
  ChatTemplate dated("{{ strftime_now('%d %B %Y, %H:%M:%S%z|%Z|%j %a') }}", "t");
  dated.set_now(std::chrono::local_days{std::chrono::year(2024) / 2 / 29} + std::chrono::seconds(3 * 3600 + 5));
  const Json turns = conversation({{"user", "x"}});
  EXPECT_EQ(dated.render(turns, false).text, "29 February 2024, 03:00:05||060 Thu");
  const ChatTemplate copy = dated;
  EXPECT_EQ(copy.render_with_assistant(turns).text, "29 February 2024, 03:00:05||060 Thu");
}

TEST(ChatTemplate, TellsHowItEndsATurn) {
  EXPECT_EQ(open_style("chatml").end_of_turn(), "<|im_end|>");
  EXPECT_EQ(open_style("generation").end_of_turn(), "<|im_end|>");
  EXPECT_EQ(open_style("brackets").end_of_turn(), "</s>");
  EXPECT_EQ(open_style("turns").end_of_turn(), "<end_of_turn>");
  EXPECT_EQ(ChatTemplate("{% for m in messages %}{{ m.content }}\n{% endfor %}", "t").end_of_turn(), "");
  EXPECT_EQ(ChatTemplate("{{ raise_exception('no') }}", "t").end_of_turn(), "");
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

TEST_F(ChatFolder, HasATemplateOfItsOwnForTools) {
  const auto written = [&](const Json& variables) {
    return ChatTemplate::open(folder_)->render(conversation({{"user", "x"}}), false, variables).text;
  };
  put("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
      {"name": "tool_use", "template": "t{{ tools | length }}"}, {"name": "default", "template": "last"}]})");
  EXPECT_EQ(written(Json::object()), "last");
  EXPECT_EQ(written({{"tools", nullptr}}), "last");
  EXPECT_EQ(written({{"tools", Json::array()}}), "t0");
  EXPECT_EQ(written({{"tools", {{{"name", "f"}}}}}), "t1");
  put("tokenizer_config.json", R"({"chat_template": [{"name": "tool_use", "template": "t{{ tools | length }}"}]})");
  EXPECT_EQ(written({{"tools", Json::array()}}), "t0");
  EXPECT_THAT(failure([&] { written(Json::object()); }), HasSubstr("none of the templates is named \"default\""));
  fs::create_directory(folder_ / "additional_chat_templates");
  put("chat_template.jinja", "file");
  put("additional_chat_templates/tool_use.jinja", "tools");
  EXPECT_EQ(written(Json::object()), "file");
  EXPECT_EQ(written({{"tools", Json::array()}}), "tools");
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
