// Checks roles and contents, and gives ShareGPT's names theirs.
#include "data/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

namespace fathom::data {
namespace {

constexpr std::array<std::string_view, 5> kRoles{"system", "developer", "user", "assistant", "tool"};
constexpr std::pair<std::string_view, std::string_view> kShareGptRoles[] = {
    {"system", "system"},     {"human", "user"},          {"user", "user"}, {"gpt", "assistant"},
    {"chatgpt", "assistant"}, {"assistant", "assistant"}, {"tool", "tool"}, {"observation", "tool"}};

std::string place_of(const char* key, size_t index) { return std::string(key) + "[" + std::to_string(index) + "]"; }

const std::string& text_of(const Line& line, const Json& message, const std::string& place, const char* key) {
  const auto found = message.find(key);
  if (found == message.end()) line.fail(place + " has no " + key);
  if (!found->is_string()) line.fail(place + "." + key + ": expected text, got " + found->type_name());
  return found->get_ref<const std::string&>();
}

const Json& list_of(const Line& line, const char* key) {
  const auto found = line.value.find(key);
  if (found == line.value.end()) line.fail(std::string("has no ") + key);
  if (!found->is_array()) line.fail(std::string(key) + ": expected a list of messages, got " + found->type_name());
  if (found->empty()) line.fail(std::string(key) + " is empty");
  for (size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_object()) {
      line.fail(place_of(key, i) + ": expected an object, got " + std::string((*found)[i].type_name()));
    }
  }
  return *found;
}

// Tools are a list, or a text that holds one, as data sets of flat columns have it.
Json variables_of(const Line& line) {
  Json variables = Json::object();
  if (const auto more = line.value.find("chat_template_kwargs"); more != line.value.end() && !more->is_null()) {
    if (!more->is_object())
      line.fail(std::string("chat_template_kwargs: expected an object, got ") + more->type_name());
    variables = *more;
  }
  const auto tools = line.value.find("tools");
  if (tools == line.value.end() || tools->is_null()) return variables;
  Json list = tools->is_string() ? parse_json(tools->get_ref<const std::string&>(), line.where + ": tools") : *tools;
  if (!list.is_array()) line.fail(std::string("tools: expected a list, got ") + list.type_name());
  variables["tools"] = std::move(list);
  return variables;
}

void check_message(const Line& line, const Json& message, const std::string& place) {
  const std::string& role = text_of(line, message, place, "role");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    line.fail(place + ".role: expected system, developer, user, assistant or tool, got '" + role.substr(0, 40) + "'");
  }
  const auto content = message.find("content");
  const bool absent = content == message.end() || content->is_null();
  if (absent && message.contains("tool_calls")) return;
  text_of(line, message, place, "content");
}

}  // namespace

Conversation read_messages(const Line& line, const char* key) {
  const Json& messages = list_of(line, key);
  for (size_t i = 0; i < messages.size(); ++i) check_message(line, messages[i], place_of(key, i));
  return {messages, variables_of(line)};
}

Conversation read_sharegpt(const Line& line) {
  constexpr const char* kKey = "conversations";
  const Json& turns = list_of(line, kKey);
  Conversation conversation{Json::array(), variables_of(line)};
  if (line.value.contains("system") && !line.value["system"].is_null()) {
    const std::string& system = line.text("system");
    if (!system.empty()) conversation.messages.push_back({{"role", "system"}, {"content", system}});
  }
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string place = place_of(kKey, i);
    const std::string& from = text_of(line, turns[i], place, "from");
    const auto known = std::find_if(std::begin(kShareGptRoles), std::end(kShareGptRoles),
                                    [&](const auto& role) { return role.first == from; });
    if (known == std::end(kShareGptRoles)) {
      line.fail(place + ".from: expected human, gpt, system or tool, got '" + from.substr(0, 40) + "'");
    }
    conversation.messages.push_back({{"role", known->second}, {"content", text_of(line, turns[i], place, "value")}});
  }
  return conversation;
}

}  // namespace fathom::data
