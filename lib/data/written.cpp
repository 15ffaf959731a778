// Marks are characters of Unicode's private use, which nobody writes, and which no template changes.
#include "data/written.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/json_value.h"
#include "data/line_keys.h"

namespace fathom::data {
namespace {

constexpr std::string_view kMarkStart = "\xF4\x8E";  // of U+10E000 and the 4,095 behind it
constexpr size_t kMarkBytes = 4, kMostMarks = 4096;

std::string mark_of(size_t number) {
  return std::string(kMarkStart) + static_cast<char>(0x80 + number / 64) + static_cast<char>(0x80 + number % 64);
}

// Every text below a value, but for keys and the roles of messages.
template <typename Value, typename OnText>
void for_each_text(Value& value, const OnText& on_text) {
  if (value.is_string()) {
    on_text(value);
  } else if (value.is_array()) {
    for (auto& item : value) for_each_text(item, on_text);
  } else if (value.is_object()) {
    for (auto& [key, item] : value.items()) {
      if (key != "role") for_each_text(item, on_text);
    }
  }
}

std::string role_of(const Json& message) { return message.at("role").get<std::string>(); }

bool is_said_beside(const Json& message) {
  const std::string role = role_of(message);
  return role != "user" && role != "assistant" && message.contains("content") && message["content"].is_string() &&
         message["content"].get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos;
}

class Comparison {
 public:
  Comparison(const Conversation& conversation, std::string_view text, const RenderText& render)
      : conversation_(conversation), text_(text), render_(render) {}

  // What the template does not refuse without this, and writes alike, it does not write.
  bool is_same(const Json& messages, const Json& variables) const {
    if (messages.empty()) return false;
    try {
      return render_(messages, variables) == text_;
    } catch (const Error&) {
      return false;
    }
  }
  bool is_same_without(const std::set<std::string>& keys) const {
    Json messages = conversation_.messages;
    for (Json& message : messages) {
      for (const std::string& key : keys) message.erase(key);
    }
    return is_same(messages, conversation_.variables);
  }
  bool is_same_without(size_t index) const {
    Json messages = conversation_.messages;
    messages.erase(index);
    return is_same(messages, conversation_.variables);
  }

  // Messages that are neither the user's nor the assistant's, and that are not in the text: one rendering in which each
  // has a mark behind it shows most that are.
  std::set<std::string> unwritten_roles() const {
    Json marked = conversation_.messages;
    std::vector<size_t> said;
    for (size_t i = 0; i < marked.size(); ++i) {
      if (!is_said_beside(marked[i])) continue;
      marked[i]["content"] = marked[i]["content"].get<std::string>() + mark_of(said.size() % kMostMarks);
      said.push_back(i);
    }
    if (said.empty()) return {};
    std::string with_marks;
    try {
      with_marks = render_(marked, conversation_.variables);
    } catch (const Error&) {
    }
    constexpr int kMostRenderings = 4;  // of a role
    std::map<std::string, int> renderings;
    std::set<std::string> roles;
    for (size_t i = 0; i < said.size(); ++i) {
      if (with_marks.find(mark_of(i % kMostMarks)) != std::string::npos) continue;
      const std::string role = role_of(conversation_.messages[said[i]]);
      if (roles.contains(role) || ++renderings[role] > kMostRenderings) continue;
      if (is_same_without(said[i])) roles.insert(role);
    }
    return roles;
  }

 private:
  const Conversation& conversation_;
  std::string_view text_;
  const RenderText& render_;
};

struct MessageKeys {
  std::set<std::string> known, foreign;  // that mean something, and others
};

MessageKeys keys_for_the_template(const Json& messages) {
  MessageKeys keys;
  for (const Json& message : messages) {
    for (const auto& [key, value] : message.items()) {
      if (holds_nothing(value)) continue;
      const LineKey* known = find_key(key, KeyPlace::kMessage, config::DatasetFormat::kMessages);
      if (known == nullptr) keys.foreign.insert(key);
      if (known != nullptr && known->handling == KeyHandling::kTemplate) keys.known.insert(key);
    }
  }
  return keys;
}

}  // namespace

bool note_unwritten(const Conversation& conversation, std::string_view text, const RenderText& render,
                    LineNotes& notes) {
  const Comparison comparison(conversation, text, render);
  for (const std::string& role : comparison.unwritten_roles()) notes.add(Note::kUnwritten, role + " messages");
  const MessageKeys keys = keys_for_the_template(conversation.messages);
  const bool none = !keys.foreign.empty() && comparison.is_same_without(keys.foreign);
  for (const std::string& key : keys.foreign) {
    if (none || comparison.is_same_without({key})) notes.add(Note::kUnreadKey, "messages[]." + key);
  }
  bool calls = false;
  for (const std::string& key : keys.known) {
    if (!comparison.is_same_without({key})) continue;
    notes.add(Note::kUnwritten, key);
    calls |= key == "tool_calls";
  }
  if (const auto tools = conversation.variables.find("tools");
      tools != conversation.variables.end() && !holds_nothing(*tools)) {
    Json others = conversation.variables;
    others.erase("tools");
    if (comparison.is_same(conversation.messages, others)) notes.add(Note::kUnwritten, "tools");
  }
  return calls;
}

std::vector<std::string> special_texts(const Conversation& conversation, const tokenizer::Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  const auto look_at = [&](const Json& value) {
    for (const tokenizer::SpecialText& special : tokenizer.special_tokens_in(value.get_ref<const std::string&>())) {
      texts.push_back(tokenizer.piece(special.id));
    }
  };
  for_each_text(conversation.messages, look_at);
  for_each_text(conversation.variables, look_at);
  return texts;
}

void refuse_unsplit(const Line& line, const std::vector<std::string>& special_texts,
                    const tokenizer::Tokenizer& tokenizer) {
  for (const std::string& text : special_texts) {
    const tokenizer::Literal all{0, text.size()};
    const std::vector<int32_t> split = tokenizer.encode_with_offsets(text, {&all, 1}).ids;
    for (const tokenizer::SpecialText& special : tokenizer.special_tokens_in(text)) {
      if (std::find(split.begin(), split.end(), special.id) == split.end()) continue;
      line.fail("split_special_tokens: true, but '" + text +
                    "' is a piece of the vocabulary, which stays this token, "
                    "in transformers too",
                "remove it from what is said");
    }
  }
}

std::vector<tokenizer::Literal> special_text_places(const Line& line, const Conversation& conversation,
                                                    std::string_view text, const tokenizer::Tokenizer& tokenizer,
                                                    const RenderText& render) {
  const auto refuse = [&](const std::string& why) {
    line.fail("split_special_tokens: true, but " + why +
                  ", so that the template's own special tokens cannot be told "
                  "from those in what is said",
              "leave this line out, or remove the special token from it");
  };
  if (text.find(kMarkStart) != std::string_view::npos) refuse("the text has characters from U+10E000 on");
  std::vector<std::string> replaced;
  const auto mark = [&](Json& value) {
    const std::string said = value.get<std::string>();
    std::string marked;
    size_t done = 0;
    for (const tokenizer::SpecialText& special : tokenizer.special_tokens_in(said)) {
      if (replaced.size() == kMostMarks) refuse("the line has more than 4096 of them");
      marked += said.substr(done, special.begin - done) + mark_of(replaced.size());
      replaced.push_back(said.substr(special.begin, special.end - special.begin));
      done = special.end;
    }
    value = marked + said.substr(done);
  };
  Json messages = conversation.messages, variables = conversation.variables;
  for_each_text(messages, mark);
  for_each_text(variables, mark);
  const std::string marked = render(messages, variables);

  std::vector<tokenizer::Literal> places;
  std::string whole;
  size_t done = 0;
  for (size_t at = 0; (at = marked.find(kMarkStart, at)) != std::string::npos; at += kMarkBytes) {
    const auto digit = [&](size_t place) { return static_cast<unsigned char>(marked[at + place]) - size_t{0x80}; };
    const size_t number = 64 * digit(2) + digit(3);
    if (number >= replaced.size()) break;  // the template's own
    const std::string& said = replaced[number];
    whole.append(marked, done, at - done);
    places.push_back({whole.size(), whole.size() + said.size()});
    whole += said;
    done = at + kMarkBytes;
  }
  whole.append(marked, done);
  if (whole != text) refuse("the chat template writes something else where one of these is said");
  return places;
}

}  // namespace fathom::data
