// Other words of the same shape.
#include "chat/other_words.h"

#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom::chat {
namespace {

Json parsed(const char* text) { return parse_json(text, "test"); }

Json one(const Json& message, Speaker speaker, const std::vector<std::string>& kept = {}) {
  return with_other_words(Json::array({message}), speaker, kept).at(0);
}

TEST(OtherWords, AreLettersAndDigitsForLettersAndDigits) {
  const Json said = {{"role", "assistant"}, {"content", " Az 09,\n<b>é</b> 世界 😀 Ω\t"}};
  const auto other = one(said, Speaker::kAssistant).at("content").get<std::string>();
  EXPECT_EQ(other.substr(0, 11), " Ba 10,\n<c>");
  EXPECT_EQ(other.size(), said.at("content").get<std::string>().size());
  for (const char* word : {"é", "世", "界", "Ω"}) EXPECT_EQ(other.find(word), std::string::npos) << word;
  EXPECT_NE(other.find("😀"), std::string::npos);
  EXPECT_EQ(one(said, Speaker::kOthers), said);
}

TEST(OtherWords, KeepWhatATemplateMayLookFor) {
  const Json said = {{"role", "assistant"}, {"content", "<think>a</think>b</think>"}};
  EXPECT_EQ(one(said, Speaker::kAssistant, {"</think>", "<think>"}).at("content"), "<think>b</think>c</think>");
}

TEST(OtherWords, KeepTheStructureOfCalls) {
  const Json call = parsed(R"({"role": "assistant", "content": null, "tool_calls": [{"id": "a1", "type": "function",
      "function": {"name": "f", "arguments": {"name": "bob", "n": [19, 9223372036854775807, 8888888888888888888, -4, 0,
                                                                   1.5, true, null]}}}]})");
  const Json expected = parsed(R"({"role": "assistant", "content": null, "tool_calls": [{"id": "a1", "type": "function",
      "function": {"name": "f", "arguments": {"name": "cpc", "n": [21, 1334483047965886908, 8888888888888888888, -4, 0,
                                                                   1.5, true, null]}}}]})");
  EXPECT_EQ(one(call, Speaker::kAssistant), expected);
  const Json text = parsed(R"({"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{\"x\": 1}"}]})");
  EXPECT_EQ(one(text, Speaker::kAssistant).at("tool_calls").at(0).at("arguments"), "{\"y\": 2}");
}

TEST(OtherWords, AreThoseOfOneSide) {
  const Json messages = parsed(R"([{"role": "system", "content": "a"}, {"role": "user", "content": [{"type": "text",
      "text": "b"}]}, {"role": "assistant", "content": "c", "reasoning_content": "d"},
      {"role": "tool", "name": "f", "tool_call_id": "x", "content": "7"}])");
  EXPECT_EQ(with_other_words(messages, Speaker::kAssistant, {}), parsed(R"([{"role": "system", "content": "a"},
      {"role": "user", "content": [{"type": "text", "text": "b"}]}, {"role": "assistant", "content": "d",
      "reasoning_content": "e"}, {"role": "tool", "name": "f", "tool_call_id": "x", "content": "7"}])"));
  EXPECT_EQ(with_other_words(messages, Speaker::kOthers, {}), parsed(R"([{"role": "system", "content": "b"},
      {"role": "user", "content": [{"type": "text", "text": "c"}]}, {"role": "assistant", "content": "c",
      "reasoning_content": "d"}, {"role": "tool", "name": "f", "tool_call_id": "x", "content": "8"}])"));
}

TEST(OtherWords, AreThoseOfDescriptionsAndDocumentsToo) {
  const Json variables = parsed(R"({"tools": [{"name": "f", "description": "ab", "parameters": {"properties":
      {"description": {"type": "string", "description": "c"}}}}], "documents": [{"title": "t"}], "date": "today"})");
  EXPECT_EQ(with_other_descriptions(variables, {}),
            parsed(R"({"tools": [{"name": "f", "description": "bc", "parameters": {"properties":
      {"description": {"type": "string", "description": "d"}}}}], "documents": [{"title": "u"}], "date": "today"})"));
}

}  // namespace
}  // namespace fathom::chat
