// Two ways to the turns: the trace of one rendering, and the beginnings of the conversation.
#include "chat/assistant_turns.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "chat/border.h"

namespace fathom::chat {
namespace {

using jinja::Visit;

std::string role_of(const Json& message) {
  const auto role = message.find("role");
  return role != message.end() && role->is_string() ? role->get<std::string>() : "";
}

bool is_assistant(const Json& message) { return role_of(message) == "assistant"; }

// The text with which the message ends, as far as it is one.
std::string_view said_by(const Json& message) {
  auto content = message.find("content");
  if (content == message.end()) return "";
  const Json* last = &*content;
  if (last->is_array() && !last->empty()) last = &last->back();
  if (last->is_object() && last->contains("text")) last = &last->at("text");
  return last->is_string() ? std::string_view(last->get_ref<const std::string&>()) : "";
}

Json first_of(const Json& messages, size_t count) {
  return Json(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(count)));
}

class TurnFinder {
 public:
  TurnFinder(const Json& messages, const jinja::Rendered& whole, const Render& render, const std::string& origin)
      : messages_(messages), text_(whole.text), render_(render), origin_(origin) {
    trace(whole.visits);
  }

  std::vector<ByteRange> find() {
    std::vector<ByteRange> turns;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!is_assistant(messages_[i])) continue;
      const ByteRange turn = is_traced_ ? traced_turn(i) : turn_by_beginnings(i);
      if (turn.end > turn.begin) turns.push_back(turn);
    }
    return turns;
  }

 private:
  // Whether each message was written in one piece, those of the assistant for certain, one after the other.
  void trace(const std::vector<Visit>& visits) {
    visits_.resize(messages_.size());
    size_t written = 0;
    for (const Visit& visit : visits) {
      std::optional<Visit>& known = visits_[visit.item];
      if (visit.is_hidden || known || visit.begin < written) return;
      known = visit;
      written = visit.end;
    }
    is_traced_ = true;
    for (size_t i = 0; i < messages_.size(); ++i) {
      is_traced_ = is_traced_ && (visits_[i] || !is_assistant(messages_[i]));
    }
  }

  ByteRange traced_turn(size_t i) {
    const size_t begin = visits_[i]->begin;
    // Nothing is said after the last message, so that what follows it there belongs to it.
    const size_t end = i + 1 == messages_.size() ? text_.size() : visits_[i]->end;
    const std::string& prompt = prompt_after(i);
    const std::string_view written = std::string_view(text_).substr(begin, end - begin);
    // Before the first message may be what opens the conversation.
    const size_t opening = i == 0 ? end_of_first_prompt(prompt, written) : 0;
    return turn_in(begin + opening, end, opening > 0 ? "" : std::string_view(prompt), messages_[i]);
  }

  // What the template writes to make the assistant speak after the i messages before: alike for messages of one role.
  const std::string& prompt_after(size_t i) {
    const std::string role = i == 0 ? "" : role_of(messages_[i - 1]);
    const auto [prompt, is_new] = prompts_.try_emplace(role);
    if (is_new) prompt->second = i == 0 ? added_prompt(messages_) : prompt_behind(i);
    return prompt->second;
  }

  std::string prompt_behind(size_t i) {
    const Json before = first_of(messages_, i);
    const size_t begin = visits_[i]->begin;
    std::string asked = render_(before, true).text;
    if (asked.starts_with(std::string_view(text_).substr(0, begin))) return asked.substr(begin);
    return added_prompt(before);  // the last message is written otherwise than in the middle
  }

  // What add_generation_prompt adds.
  std::string added_prompt(const Json& messages) {
    const std::string told = render_(messages, false).text, asked = render_(messages, true).text;
    return asked.substr(end_of_prompt(told, asked));
  }

  ByteRange turn_by_beginnings(size_t i) {
    const std::string after = i + 1 == messages_.size() ? text_ : render_(first_of(messages_, i + 1), false).text;
    const Json before = first_of(messages_, i);
    const std::string start = i == 0 ? "" : render_(before, false).text;
    if (!text_.starts_with(after) || !after.starts_with(start)) refuse(i);
    const std::string asked = i == 0 ? "" : render_(before, true).text;
    const std::string prompt = asked.starts_with(start) ? asked.substr(start.size()) : "";
    return turn_in(start.size(), after.size(), prompt, messages_[i]);
  }

  ByteRange turn_in(size_t begin, size_t end, std::string_view prompt, const Json& message) const {
    const std::string_view written = std::string_view(text_).substr(begin, end - begin);
    const size_t spoken = end_of_prompt(prompt, written);
    const size_t size = end_of_turn(written.substr(spoken), said_by(message));
    return {static_cast<int64_t>(begin + spoken), static_cast<int64_t>(begin + spoken + size)};
  }

  [[noreturn]] void refuse(size_t i) const {
    throw Error(
        origin_ + ": message " + std::to_string(i + 1) +
            " is written differently when more messages follow it, so that what the assistant says cannot be told from "
            "the rest",
        "mark it in the template with {% generation %} … {% endgeneration %}, or train without assistant_only_loss");
  }

  const Json& messages_;
  const std::string& text_;
  const Render& render_;
  const std::string& origin_;
  std::vector<std::optional<Visit>> visits_;  // by message
  bool is_traced_ = false;
  std::map<std::string, std::string> prompts_;  // by the role before the assistant's
};

}  // namespace

std::vector<ByteRange> find_assistant_turns(const Json& messages, const jinja::Rendered& whole, const Render& render,
                                            const std::string& origin) {
  return TurnFinder(messages, whole, render, origin).find();
}

}  // namespace fathom::chat
