// Checks roles and contents, and gives ShareGPT's names theirs.
#include "data/conversation.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_value.h"
#include "data/line_keys.h"

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
  if (!found->is_string()) line.fail(place + "." + key + ": expected text, got " + kind_of(*found));
  return found->get_ref<const std::string&>();
}

const Json& list_of(const Line& line, const char* key) {
  const auto found = line.value.find(key);
  if (found == line.value.end()) line.fail(std::string("has no ") + key);
  if (!found->is_array()) line.fail(std::string(key) + ": expected a list of messages, got " + kind_of(*found));
  if (found->empty()) line.fail(std::string(key) + " is empty");
  for (size_t i = 0; i < found->size(); ++i) {
    if (!(*found)[i].is_object()) {
      line.fail(place_of(key, i) + ": expected an object, got " + kind_of((*found)[i]));
    }
  }
  return *found;
}

// Tools are a list, or a text that holds one, as data sets of flat columns have it.
Json variables_of(const Line& line) {
  Json variables = Json::object();
  if (const auto more = line.value.find("chat_template_kwargs"); more != line.value.end() && !more->is_null()) {
    if (!more->is_object()) line.fail("chat_template_kwargs: expected an object, got " + kind_of(*more));
    variables = *more;
  }
  const auto tools = line.value.find("tools");
  if (tools == line.value.end() || tools->is_null()) return variables;
  Json list = tools->is_string() ? parse_json(tools->get_ref<const std::string&>(), line.where + ": tools") : *tools;
  if (!list.is_array()) line.fail("tools: expected a list, got " + kind_of(list));
  variables["tools"] = std::move(list);
  return variables;
}

// Content in parts: [{"type": "text", "text": "…"}, {"type": "image"}].
void refuse_parts(const Line& line, const Json& parts, const std::string& place) {
  for (const Json& part : parts) {
    const Json type = part.is_object() ? part.value("type", Json()) : Json();
    if (!type.is_string() || type == "text") continue;
    line.fail(place + ".content: a part is of type " + type.dump().substr(0, 40) + ", and text alone is read",
              "leave lines with pictures or sound out, or train on them by a script of transformers");
  }
  line.fail(place + ".content: expected text, got a list of parts",
            "join the texts of the parts: jq -c '.messages[].content |= if type == \"array\" then map(.text) | "
            "join(\"\") else . end' OLD > NEW");
}

void check_message(const Line& line, const Json& message, const std::string& place) {
  const std::string& role = text_of(line, message, place, "role");
  if (std::find(kRoles.begin(), kRoles.end(), role) == kRoles.end()) {
    line.fail(place + ".role: expected system, developer, user, assistant or tool, got '" + role.substr(0, 40) + "'");
  }
  const auto content = message.find("content");
  const bool absent = content == message.end() || content->is_null();
  if (absent && message.contains("tool_calls")) return;
  if (!absent && content->is_array()) refuse_parts(line, *content, place);
  text_of(line, message, place, "content");
}

// OpenAI's and Mistral's weight, Axolotl's train.
Voice voice_of(const Line& line, const Json& message, const std::string& place) {
  Voice voice = Voice::kUnsaid;
  if (const auto weight = message.find("weight"); weight != message.end() && !weight->is_null()) {
    if (*weight != 0 && *weight != 1) {
      line.fail(place + ".weight: expected 0 or 1, got " + weight->dump().substr(0, 40),
                "a message counts for the loss, or does not: other weights are not supported");
    }
    if (*weight == 0) voice = Voice::kSilent;
  }
  for (const char* key : {"train", "training"}) {
    const auto train = message.find(key);
    if (train == message.end() || train->is_null()) continue;
    if (!train->is_boolean()) line.fail(place + "." + key + ": expected true or false, got " + kind_of(*train));
    if (!train->get<bool>()) voice = Voice::kSilent;
    if (train->get<bool>() && voice == Voice::kUnsaid) voice = Voice::kCounts;
  }
  return voice;
}

void add(Conversation& conversation, Json message, Voice voice, std::string place) {
  conversation.messages.push_back(std::move(message));
  conversation.voices.push_back(voice);
  conversation.places.push_back(std::move(place));
}

// The line's own system becomes the first message.
void add_system(const Line& line, Conversation& conversation) {
  const auto system = line.value.find("system");
  if (system == line.value.end() || system->is_null()) return;
  const std::string& text = line.text("system");
  if (!text.empty()) add(conversation, {{"role", "system"}, {"content", text}}, Voice::kUnsaid, "system");
}

void refuse_second_system(const Line& line, const Conversation& conversation) {
  if (conversation.places[0] != "system") return;
  for (size_t i = 1; i < conversation.messages.size(); ++i) {
    if (conversation.messages[i]["role"] != "system") continue;
    line.fail("has system, and " + conversation.places[i] + " is a system message too", "remove one of the two");
  }
}

}  // namespace

Conversation read_messages(const Line& line, LineNotes& notes, const char* key) {
  const Json& messages = list_of(line, key);
  Conversation conversation{Json::array(), variables_of(line), {}, {}};
  const bool is_completion = key == std::string_view("completion");
  if (!is_completion) add_system(line, conversation);
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string place = place_of(key, i);
    check_message(line, messages[i], place);
    check_keys(line, messages[i], place, KeyPlace::kMessage, config::DatasetFormat::kMessages, notes);
    add(conversation, messages[i], voice_of(line, messages[i], place), place);
  }
  refuse_second_system(line, conversation);
  return conversation;
}

Conversation read_sharegpt(const Line& line, LineNotes& notes) {
  constexpr const char* kKey = "conversations";
  const Json& turns = list_of(line, kKey);
  Conversation conversation{Json::array(), variables_of(line), {}, {}};
  add_system(line, conversation);
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string place = place_of(kKey, i);
    const std::string& from = text_of(line, turns[i], place, "from");
    const auto known = std::find_if(std::begin(kShareGptRoles), std::end(kShareGptRoles),
                                    [&](const auto& role) { return role.first == from; });
    if (known == std::end(kShareGptRoles)) {
      line.fail(place + ".from: expected human, gpt, system or tool, got '" + from.substr(0, 40) + "'");
    }
    check_keys(line, turns[i], place, KeyPlace::kTurn, config::DatasetFormat::kShareGpt, notes);
    add(conversation, {{"role", known->second}, {"content", text_of(line, turns[i], place, "value")}},
        voice_of(line, turns[i], place), place);
  }
  refuse_second_system(line, conversation);
  return conversation;
}

}  // namespace fathom::data
