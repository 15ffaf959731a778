// Which words count: conversations of marked words in every style of template and in awkward ones. Each of the
// assistant's that is written counts, none of another's does, and neither does what makes somebody speak; or the
// template is refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "chat/chat_template.h"
#include "tests/chat/conversation.h"

namespace fathom::chat {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// "said" and "other" become words with a number each, which no template has.
Json marked(const std::string& text) {
  static const std::regex kWord("said|other");
  std::string result;
  int count = 0;
  auto at = text.begin();
  for (std::sregex_iterator word(text.begin(), text.end(), kWord), end; word != end; ++word) {
    result.append(at, text.begin() + word->position());
    const std::string number = std::to_string(++count);
    result += word->str() == "said" ? "Qa" + number + "zq" : "Xo" + number + "wx";
    at = text.begin() + word->position() + word->length();
  }
  return parse_json(result.append(at, text.end()), "conversation");
}

const char kCall[] = R"({"role": "assistant", "content": "", "tool_calls": [{"id": "abcdef123", "type": "function",
    "function": {"name": "f", "arguments": {"x": "said", "l": [1, "said"]}}}]},
    {"role": "tool", "name": "f", "tool_call_id": "abcdef123", "content": "other"})";
const std::string kConversations[] = {
    R"([{"role": "user", "content": "other"}, {"role": "assistant", "content": "said"}])",
    R"([{"role": "system", "content": "other"}, {"role": "user", "content": " other\n"},
        {"role": "assistant", "content": "\nsaid "}, {"role": "user", "content": "other"},
        {"role": "assistant", "content": "said."}])",
    R"([{"role": "user", "content": "other"}, {"role": "assistant", "content": "said"},
        {"role": "user", "content": "other"}])",
    R"([{"role": "user", "content": "other"}, {"role": "assistant", "content": ""},
        {"role": "user", "content": "other"}, {"role": "assistant", "content": "said"}])",
    R"([{"role": "assistant", "content": "said"}, {"role": "user", "content": "other"},
        {"role": "assistant", "content": "said"}])",
    R"([{"role": "user", "content": "other"}, {"role": "assistant", "content": "said"},
        {"role": "assistant", "content": "said"}, {"role": "user", "content": "other"},
        {"role": "assistant", "content": "said"}])",
    R"([{"role": "user", "content": "other"}, )" + std::string(kCall) +
        R"(, {"role": "assistant", "content": "said"}])",
    R"([{"role": "system", "content": "other"}, {"role": "user", "content": "other"}, )" + std::string(kCall) + ", " +
        kCall + R"(, {"role": "assistant", "content": "said"}, {"role": "user", "content": "other"}])",
    R"([{"role": "user", "content": "other"}, {"role": "assistant", "content": "said", "reasoning_content": "said"},
        {"role": "user", "content": "other"}, {"role": "assistant", "content": "<think>\nsaid\n</think>\n\nsaid"}])"};

// Templates that write what others said, or what makes the assistant speak, where it is not expected.
const std::pair<const char*, const char*> kAwkward[] = {
    {"results inside the turn of their call",
     "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<A>' + m.content }}"
     "{% for c in m.tool_calls or [] %}{{ '<c>' + c.function.arguments.x + c.function.arguments.l[1] + '</c>' }}"
     "{% endfor %}{% set ns = namespace(stop=false) %}{% for k in range(loop.index0 + 1, messages | length) %}"
     "{% if messages[k].role != 'tool' %}{% set ns.stop = true %}{% endif %}"
     "{% if not ns.stop %}{{ '<R>' + messages[k].content + '</R>' }}{% endif %}{% endfor %}{{ '</A>\n' }}"
     "{% elif m.role != 'tool' %}{{ '<U>' + m.content + '</U>\n' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<A>' }}{% endif %}"},
    {"the next prompt unasked",
     "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<A>' + m.content + '</A>' }}"
     "{% else %}{{ '<U>' + m.content + '</U>' }}{% endif %}{% if loop.last %}{{ '<A>' }}{% endif %}{% endfor %}"},
    {"no prompt behind a tool",
     "{% set ns = namespace(tool=false) %}{% for m in messages %}{% if m.role == 'tool' %}"
     "{% if not ns.tool %}{{ '<TR>' }}{% endif %}{% set ns.tool = true %}{{ '<r>' + m.content + '</r>' }}"
     "{% elif m.role == 'assistant' %}{% if ns.tool %}{{ '</TR>' }}{% endif %}{% set ns.tool = false %}"
     "{{ '<A>' + m.content + '</A>' }}{% else %}{{ '<U>' + m.content + '</U>' }}{% endif %}{% endfor %}"
     "{% if add_generation_prompt and not ns.tool %}{{ '<A>' }}{% endif %}"},
    {"no prompt behind an assistant",
     "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content ~ '<|end|>\n' }}{% endfor %}"
     "{% if add_generation_prompt and messages[-1].role != 'assistant' %}{{ '<|assistant|>' }}{% endif %}"},
    {"the end before the next message",
     "{% for m in messages %}{% if not loop.first %}{{ '<|end|>\n' }}{% endif %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}"
     "{% endfor %}{% if add_generation_prompt %}{{ '<|end|>\n<|assistant|>' }}{% endif %}"},
    {"the answer beside its question",
     "{% for m in messages %}{% if m.role == 'user' %}{{ '<U>' + m.content }}{% if not loop.last %}"
     "{{ '<A>' + loop.nextitem.content + '</A>' }}{% endif %}{% endif %}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<A>' }}{% endif %}"},
    {"the last answer again at the top",
     "{{ '[' + (messages | selectattr('role', 'equalto', 'assistant') | list | last).content + ']' }}"
     "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' ~ m.content }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"},
    {"the question again in the answer",
     "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' }}{% if m.role == 'assistant' and loop.index0 > 0 %}"
     "{{ '(' + loop.previtem.content + ')' }}{% endif %}{{ m.content }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"},
    {"the tools in the answer",
     "{% for m in messages %}{{ '<|' ~ m.role ~ '|>' }}{% if m.role == 'assistant' %}{{ tools | tojson }}{% endif %}"
     "{{ m.content }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"}};

const Json& tools() {
  static const Json kTools = parse_json(R"([{"name": "f", "description": "Xo0wx"}])", "tools");
  return kTools;
}

struct Tally {
  int rendered = 0, refused = 0;
  std::set<std::string> refusing;  // templates
};

// Fails the test for a word that counts wrongly.
void judge(const ChatTemplate& style, Tally& tally) {
  for (const std::string& conversation : kConversations) {
    const Json messages = marked(conversation);
    RenderedChat chat;
    try {
      style.render(messages, false, {{"tools", tools()}});
    } catch (const Error&) {
      continue;  // a conversation that the template does not take
    }
    ++tally.rendered;
    try {
      chat = style.render_with_assistant(messages, {{"tools", tools()}});
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(style.origin() + ": "));
      EXPECT_THAT(error.what(), HasSubstr("so that what"));
      tally.refusing.insert(style.origin());
      ++tally.refused;
      continue;
    }
    std::string counted, left_out;
    int64_t end = 0;
    for (const ByteRange& range : chat.assistant) {
      left_out += chat.text.substr(end, range.begin - end) + "|";
      counted += chat.text.substr(range.begin, range.end - range.begin) + "|";
      end = range.end;
    }
    left_out += chat.text.substr(end);
    const std::string where = style.origin() + ": " + messages.dump() + "\n" + chat.text + "\ncounts " + counted;
    EXPECT_EQ(left_out.find("Qa"), std::string::npos) << where;
    EXPECT_EQ(counted.find("Xo"), std::string::npos) << where;
    if (style.origin() == "pairs") continue;  // whose messages are written as keys and values, the role's the last
    for (const char* header : {"assistant", "<A>", "<U>", "user", "[INST]", "USER"}) {
      EXPECT_EQ(counted.find(header), std::string::npos) << where;
    }
  }
}

TEST(CountedWords, AreTheAssistantsInEveryStyle) {
  const Json golden = read_json(kTests / "golden.json");
  Tally tally;
  for (const auto& file : fs::directory_iterator(kTests / "templates")) {
    judge(ChatTemplate(read_file(file.path()), file.path().stem().string(),
                       golden.at("special_tokens").get<std::map<std::string, std::string>>()),
          tally);
  }
  EXPECT_GT(tally.rendered, 180);
  EXPECT_LE(tally.refused, 10);
  // Which write an answer into the question before it, or the last answer otherwise than those before.
  EXPECT_THAT(tally.refusing, ElementsAre("headers", "last_words", "pipes"));
}

TEST(CountedWords, AreTheAssistantsInAwkwardTemplates) {
  Tally tally;
  for (const auto& [name, source] : kAwkward) judge(ChatTemplate(source, name), tally);
  EXPECT_GT(tally.rendered, 50);
  EXPECT_LT(tally.refused, tally.rendered / 2);
}

std::vector<std::string> counted(size_t style, const std::string& conversation) {
  const auto& [name, source] = kAwkward[style];
  const RenderedChat chat = ChatTemplate(source, name).render_with_assistant(parse_json(conversation, "conversation"));
  std::vector<std::string> parts;
  for (const ByteRange& range : chat.assistant) parts.push_back(chat.text.substr(range.begin, range.end - range.begin));
  return parts;
}

TEST(CountedWords, EndBeforeWhatATemplateWritesOfOthers) {
  EXPECT_THAT(counted(0, R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "call"},
      {"role": "tool", "content": "42"}, {"role": "assistant", "content": "ans"}])"),
              ElementsAre("call", "ans</A>"));
}

TEST(CountedWords, EndBeforeAPromptThatNobodyAskedFor) {
  EXPECT_THAT(counted(1, R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a1"},
      {"role": "user", "content": "q2"}, {"role": "assistant", "content": "a2"}])"),
              ElementsAre("a1</A>", "a2</A>"));
  EXPECT_EQ(ChatTemplate(kAwkward[1].second, "t").end_of_turn(), "</A>");
}

TEST(CountedWords, BeginBehindEveryHeader) {
  EXPECT_THAT(counted(2, R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "call"},
      {"role": "tool", "content": "42"}, {"role": "assistant", "content": "ans"}])"),
              ElementsAre("call</A>", "ans</A>"));
  EXPECT_THAT(counted(3, R"([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"},
      {"role": "user", "content": "q"}, {"role": "assistant", "content": "c"}])"),
              ElementsAre("a<|end|>", "b<|end|>", "c<|end|>"));
  EXPECT_THAT(counted(4, R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
      {"role": "assistant", "content": "b"}])"),
              ElementsAre("a", "b"));
}

}  // namespace
}  // namespace fathom::chat
