// Two ways to the turns: the trace of one rendering, and the beginnings of the conversation; then their proof.
#include "chat/assistant_turns.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"
#include "chat/border.h"
#include "jinja/text.h"

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

bool has_letters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](unsigned char byte) { return byte >= 0x80 || std::isalnum(byte) != 0; });
}

struct Piece {
  size_t begin = 0, end = 0;
};

// Where two texts of one size differ between two places; nullopt: nowhere.
std::optional<Piece> difference(std::string_view left, std::string_view right, Piece within) {
  const auto differs = [&](size_t at) { return left[at] != right[at]; };
  while (within.begin < within.end && !differs(within.begin)) ++within.begin;
  while (within.end > within.begin && !differs(within.end - 1)) --within.end;
  return within.begin < within.end ? std::optional(within) : std::nullopt;
}

class TurnFinder {
 public:
  TurnFinder(const Json& messages, const jinja::Rendered& whole, const Renderings& renderings,
             const std::string& origin)
      : messages_(messages),
        text_(whole.text),
        visits_in_order_(whole.visits),
        renderings_(renderings),
        origin_(origin) {
    trace();
  }

  std::vector<ByteRange> find() {
    own_ = with_other_words(Speaker::kAssistant);
    others_ = with_other_words(Speaker::kOthers);
    if (is_traced_) note_headers();
    std::vector<ByteRange> turns;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!is_assistant(messages_[i])) continue;
      const Turn turn = is_traced_ ? traced_turn(i) : turn_by_beginnings(i);
      if (turn.said.end <= turn.said.begin) continue;
      prove_silence(proved_, turn.header.begin);
      prove_silence(turn.header.end, turn.said.begin);
      proved_ = turn.said.end;
      turns.push_back({static_cast<int64_t>(turn.said.begin), static_cast<int64_t>(turn.said.end)});
    }
    prove_silence(proved_, text_.size());
    return turns;
  }

 private:
  struct Turn {
    Piece header,
        said;  // the former as the template writes it to make the assistant speak, the same words of the latter
  };

  // Whether each message was written in one piece, those of the assistant for certain, one after the other.
  void trace() {
    visits_.resize(messages_.size());
    size_t written = 0;
    for (const Visit& visit : visits_in_order_) {
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

  // Without exception, but where that changes what else the template writes.
  std::string with_other_words(Speaker speaker) const {
    using Words = Renderings::Words;
    for (const Words words : {Words::kAll, Words::kUnknown}) {
      try {
        jinja::Rendered other = renderings_.render_otherwise(speaker, words);
        if (other.text.size() == text_.size() && other.visits == visits_in_order_) return std::move(other.text);
      } catch (const jinja::BoundPassed&) {
        throw;
      } catch (const Error&) {
      }
    }
    fail("the template writes something else around other words, so that what the assistant says cannot be proved");
  }

  // What the template writes before the words of other roles, which no turn of the assistant holds.
  void note_headers() {
    std::set<std::string> roles;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (!visits_[i] || is_assistant(messages_[i]) || !roles.insert(role_of(messages_[i])).second) continue;
      const Piece visit{visits_[i]->begin, visits_[i]->end};
      starts_.push_back(without_blanks_before(written(visit)));
      const auto words = difference(text_, others_, visit);
      if (!words) continue;
      const auto header = without_blanks_behind(without_blanks_before(written({visit.begin, words->begin})));
      if (has_letters(header)) headers_.insert(header);
    }
  }

  std::string_view written(Piece piece) const {
    return std::string_view(text_).substr(piece.begin, piece.end - piece.begin);
  }

  Turn traced_turn(size_t i) {
    // Nothing is said after the last message, so that what follows it there belongs to it.
    const size_t end = i + 1 == messages_.size() ? text_.size() : visits_[i]->end;
    return turn_in({visits_[i]->begin, end}, i, prompt_after(i));
  }

  // What the template writes to make the assistant speak after the i messages before: alike for messages of one role.
  const std::string& prompt_after(size_t i) {
    if (i == 0) return prompt_after_question();
    const auto [prompt, is_new] = prompts_.try_emplace(role_of(messages_[i - 1]));
    if (is_new) prompt->second = prompt_behind(i);
    return prompt->second;
  }

  std::string prompt_behind(size_t i) const {
    const Json before = first_of(messages_, i);
    const size_t begin = visits_[i]->begin;
    std::string asked = render(before, true);
    if (asked.starts_with(std::string_view(text_).substr(0, begin))) return asked.substr(begin);
    return added_prompt(before);  // the last message is written otherwise than in the middle
  }

  // What add_generation_prompt adds.
  std::string added_prompt(const Json& messages) const {
    const std::string told = render(messages, false), asked = render(messages, true);
    return asked.substr(end_of_prompt(told, asked));
  }

  // What makes the assistant answer a question, for turns before which the template need not write it.
  const std::string& prompt_after_question() {
    if (!prompt_after_question_) {
      prompt_after_question_ = "";
      for (size_t i = 1; is_traced_ && i < messages_.size(); ++i) {
        if (!is_assistant(messages_[i]) || role_of(messages_[i - 1]) != "user") continue;
        prompt_after_question_ = prompt_after(i);
        break;
      }
      if (without_blanks_before(*prompt_after_question_).empty()) {
        try {
          prompt_after_question_ = added_prompt({{{"role", "user"}, {"content", "question"}}});
        } catch (const jinja::BoundPassed&) {
          throw;
        } catch (const Error&) {  // a template that wants more than a question
        }
      }
    }
    return *prompt_after_question_;
  }

  Turn turn_by_beginnings(size_t i) {
    const std::string after = i + 1 == messages_.size() ? text_ : render(first_of(messages_, i + 1), false);
    const Json before = first_of(messages_, i);
    const std::string start = i == 0 ? "" : render(before, false);
    if (!text_.starts_with(after) || !after.starts_with(start)) {
      fail("message " + std::to_string(i + 1) +
           " is written differently when more messages follow it, so that what the assistant says cannot be told from "
           "the rest");
    }
    const std::string asked = i == 0 ? "" : render(before, true);
    const std::string prompt = asked.starts_with(start) ? asked.substr(start.size()) : "";
    return turn_in({start.size(), after.size()}, i, prompt);
  }

  // The turn in what is written of message i.
  Turn turn_in(Piece piece, size_t i, const std::string& prompt) {
    const auto words = difference(text_, own_, piece);
    const Piece header = header_in(piece, words, prompt, i == 0);
    Piece said{header.end, end_of_words(std::max(header.end, words ? words->end : 0), piece, messages_[i])};
    said.end += start_of_next(written({said.end, piece.end}));
    said.end = said.begin + end_of_turn(written(said), said_by(messages_[i]));
    if (difference(text_, others_, said)) said.end = end_before_others(said, i);
    prove_complete(said, piece, i);
    return {header, said};
  }

  // Behind the message's text, where it goes on behind what differs with other words.
  size_t end_of_words(size_t known, Piece piece, const Json& message) const {
    const std::string_view said = without_blanks_before(without_blanks_behind(said_by(message)));
    const size_t from = std::max(piece.begin, known - std::min(known, said.size()));
    const size_t at = jinja::find_text(written({0, piece.end}), said, from);
    const bool goes_on = at <= known || (at < piece.end && without_blanks_before(written({known, at})).empty());
    return goes_on ? std::max(known, at + said.size()) : known;
  }

  // What makes the assistant speak, in what is written before its first word, or in a turn without words.
  Piece header_in(Piece piece, const std::optional<Piece>& words, const std::string& prompt, bool is_first) {
    const std::string_view lead = written({piece.begin, words ? words->begin : piece.end}), all = written(piece);
    std::optional<Piece> found;
    for (const std::string* known : {&prompt, &prompt_after_question()}) {
      for (std::string_view core = without_blanks_before(*known); !core.empty();) {
        if (const auto place =
                find_prompt(lead, core, shared_with_others(core), words ? Which::kLast : Which::kFirst)) {
          // What the assistant says may begin as the prompt ends.
          const size_t size = end_of_prompt(core, all.substr(place->begin));
          const std::string_view header = without_blanks_behind(all.substr(place->begin, size));
          if (has_letters(header)) {
            if (!found || place->begin + size > found->end) found = {place->begin, place->begin + size};
            if (is_own(header)) headers_.insert(header);
            break;
          }
        }
        // Before the first message nothing is ended, as the prompt may end the question.
        core = is_first ? core.substr(std::min(core.find_first_of("<[", 1), core.size())) : "";
      }
    }
    if (!found) found = {0, end_of_prompt(prompt, all)};
    return {piece.begin + found->begin, piece.begin + found->end};
  }

  // Where the next turn begins in what is written behind the assistant's last word: with what makes somebody speak, or
  // with the first part of what makes the assistant speak, if nothing of the others holds it as an end of a turn.
  size_t start_of_next(std::string_view tail) const {
    size_t start = tail.size();
    for (const std::string_view header : headers_) {
      start = std::min(start, jinja::find_text(tail, header));
      const auto place = find_prompt(tail, header, shared_with_others(header), Which::kFirst);
      if (place && is_own(tail.substr(place->begin, place->end - place->begin))) start = std::min(start, place->begin);
    }
    return start;
  }

  bool is_own(std::string_view header) const {
    return has_letters(header) && std::all_of(starts_.begin(), starts_.end(), [&](std::string_view start) {
             return jinja::find_text(start, header) == std::string_view::npos;
           });
  }

  // With how many bytes what others say begins as the prompt does: no more tells nothing of who speaks.
  size_t shared_with_others(std::string_view prompt) const {
    size_t shared = 0;
    for (const std::string_view start : starts_) {
      const auto parted = std::mismatch(prompt.begin(), prompt.end(), start.begin(), start.end()).first;
      if (parted != prompt.end()) shared = std::max(shared, static_cast<size_t>(parted - prompt.begin()));
    }
    return shared;
  }

  // The end of a turn into which the template writes what others said: where it parts from what the template writes
  // while they have not said it, and before a tag that is opened for it.
  size_t end_before_others(const Piece& said, size_t i) const {
    Json before = first_of(messages_, i + 1);
    before.push_back({{"role", "user"}, {"content", "question"}});
    const size_t end = end_of_prompt(render(before, false), text_);
    const size_t words = difference(text_, others_, said)->begin;
    if (end > said.begin && end <= words) {
      const std::string_view tag = tag_at_end(written({said.begin, end}));
      const std::string_view name = name_of_tag(tag);
      const bool opens = !name.empty() && jinja::find_text(written({words, said.end}), name) != std::string_view::npos;
      return opens ? end - tag.size() : end;
    }
    fail("message " + std::to_string(i + 1) +
         " is written together with what others say, so that what the assistant says cannot be told from it");
  }

  std::string render(const Json& messages, bool add_generation_prompt) const {
    try {
      return renderings_.render(messages, add_generation_prompt).text;
    } catch (const jinja::BoundPassed&) {
      throw;
    } catch (const Error& error) {
      fail("the beginning of the conversation is not rendered (" + std::string(error.what()) +
           "), so that what the assistant says cannot be told from the rest");
    }
  }

  // What differs with other words need not show all of a message's text: a template may look for parts of it.
  void prove_complete(Piece said, Piece piece, size_t i) const {
    const std::string_view text = without_blanks_before(without_blanks_behind(said_by(messages_[i])));
    const auto is_in = [&](Piece part) { return jinja::find_text(written(part), text) != std::string_view::npos; };
    if (!has_letters(text) || is_in(said) || !is_in({said.end, piece.end})) return;
    fail("message " + std::to_string(i + 1) +
         " is written behind what ends its turn, so that what the assistant says cannot be told from the rest");
  }

  // Between two turns the assistant says nothing.
  void prove_silence(size_t begin, size_t end) const {
    if (begin > end) fail("the assistant's messages are not written one after the other");
    if (difference(text_, own_, {begin, end})) {
      fail("words of the assistant are written outside its turns, so that what it says cannot be told from the rest");
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(origin_ + ": " + what,
                "mark it in the template with {% generation %} … {% endgeneration %}, or train without "
                "assistant_only_loss");
  }

  const Json& messages_;
  const std::string& text_;
  const std::vector<Visit>& visits_in_order_;
  const Renderings& renderings_;
  const std::string& origin_;
  std::string own_, others_;                  // the text with other words of the assistant, and of all others
  std::vector<std::optional<Visit>> visits_;  // by message
  bool is_traced_ = false;
  std::vector<std::string_view> starts_;        // what is written of others' messages, one of each role
  std::set<std::string_view> headers_;          // what is written before somebody's words
  std::map<std::string, std::string> prompts_;  // by the role before the assistant's
  std::optional<std::string> prompt_after_question_;
  size_t proved_ = 0;  // bytes of the text
};

}  // namespace

std::vector<ByteRange> find_assistant_turns(const Json& messages, const jinja::Rendered& whole,
                                            const Renderings& renderings, const std::string& origin) {
  return TurnFinder(messages, whole, renderings, origin).find();
}

}  // namespace fathom::chat
