// Turn after turn: the whole conversation is rendered anew each time, so that the model sees what the template writes.
#include "chat/dialogue.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::chat {
namespace {

constexpr const char* kCommands =
    "/reset  forgets what was said\n"
    "/exit   ends the conversation, as the end of the input does (Ctrl-D)\n"
    "/help   lists these";

// "/help", but not "/etc/hosts" or "/ 2".
bool is_command(std::string_view line) {
  return line.size() > 1 && line.front() == '/' &&
         std::all_of(line.begin() + 1, line.end(), [](unsigned char c) { return std::isalpha(c) != 0; });
}

class Dialogue {
 public:
  Dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, const Screen& screen,
           const DialogueModel& model)
      : template_(chat_template), options_(options), screen_(screen), model_(model) {
    reset();
  }

  // False: the conversation ends.
  bool take(std::string line) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    while (!line.empty() && (line.back() == ' ' || line.back() == '\t')) line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) return true;
    if (is_command(line)) return obey(line);
    const Json before = messages_;
    messages_.push_back({{"role", "user"}, {"content", line}});
    try {
      const std::string said = model_.answer(fitting_prompt());
      messages_.push_back({{"role", "assistant"}, {"content", said}});
    } catch (const Error& error) {
      if (!options_.interactive) throw;
      screen_.show_error(error.what());
      messages_ = before;
    }
    screen_.show("\n");
    return true;
  }

 private:
  bool obey(const std::string& command) {
    if (command == "/exit") return false;
    if (command == "/reset") {
      reset();
      screen_.show_note("(what was said is forgotten)");
    } else if (command == "/help") {
      screen_.show_note(kCommands);
    } else {
      screen_.show_error("there is no " + command + "; commands are\n" + kCommands);
    }
    return true;
  }

  void reset() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  std::string rendered() const { return template_.render(messages_, true).text; }

  // The conversation without its oldest turns, as far as it takes to fit.
  std::string fitting_prompt() {
    std::string prompt = rendered();
    const size_t first = options_.system.empty() ? 0 : 1;
    while (model_.fits && messages_.size() > first + 1 && !model_.fits(prompt)) {
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(first),
                      messages_.begin() + static_cast<std::ptrdiff_t>(first + 2));  // a question and its answer
      if (!is_told_)
        screen_.show_note("(the conversation is longer than the model's positions: its oldest turns are left out)");
      is_told_ = true;
      prompt = rendered();
    }
    return prompt;
  }

  const ChatTemplate& template_;
  const DialogueOptions& options_;
  const Screen& screen_;
  const DialogueModel& model_;
  Json messages_;
  bool is_told_ = false;
};

}  // namespace

void hold_dialogue(const ChatTemplate& chat_template, const DialogueOptions& options, const ReadLine& read_line,
                   const Screen& screen, const DialogueModel& model) {
  if (options.interactive) screen.show_note("(each line is a turn; /help lists the commands)");
  Dialogue dialogue(chat_template, options, screen, model);
  while (std::optional<std::string> line = read_line()) {
    if (!dialogue.take(std::move(*line))) break;
  }
}

}  // namespace fathom::chat
