// Answers of a model in a conversation.
#include "app/commands/hold_chat.h"

#include <unistd.h>

#include <algorithm>

#include "app/commands/answer.h"
#include "app/commands/line_editor.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "chat/dialogue.h"
#include "chat/end_token.h"

namespace fathom::app {

chat::ChatTemplate open_chat_template(const weights::ModelFolder& folder) {
  if (auto chat_template = chat::ChatTemplate::open(folder.path())) return *chat_template;
  throw Error(folder.path().string() + " has no chat template",
              "add chat_template.jinja, or chat_template in tokenizer_config.json; without it there is --prompt, with "
              "--prompt-format plain");
}

void add_ends_of_turns(const chat::ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer,
                       train::GenerationOptions& options, std::vector<std::string>& stops) {
  if (tokenizer.eos_id) options.stop_ids.push_back(*tokenizer.eos_id);
  if (const auto end = chat::end_token(chat_template, tokenizer)) {
    options.stop_ids.push_back(*end);
  } else if (const std::string text = chat_template.end_of_turn(); chat::is_mark(text)) {
    stops.push_back(text);  // of a template whose marks the tokenizer does not know
  }
}

void hold_chat(model::Decoder& model, const schedule::RunInputs& inputs, train::GenerationOptions options,
               std::vector<std::string> stops, const std::string& system_prompt) {
  const chat::ChatTemplate chat_template = open_chat_template(*inputs.folder);
  add_ends_of_turns(chat_template, *inputs.tokenizer, options, stops);
  const int64_t positions = model.architecture().max_position_embeddings, most = options.max_new_tokens;
  // The template writes BOS and the like itself.
  const auto length = [&](const std::string& prompt) { return std::ssize(inputs.tokenizer->encode(prompt)); };
  chat::DialogueModel dialogue_model;
  dialogue_model.fits = [&](const std::string& prompt) { return length(prompt) + most <= positions; };
  dialogue_model.answer = [&](const std::string& prompt) {
    const std::vector<int32_t> ids = inputs.tokenizer->encode(prompt);
    if (std::ssize(ids) >= positions) {
      throw Error("this turn alone makes a prompt of " + format_count(std::ssize(ids)) + " tokens, and the model has " +
                      format_count(positions) + " positions",
                  "shorten it");
    }
    options.max_new_tokens = std::min(most, positions - std::ssize(ids));
    const auto show = [](const std::string& text) { print_verbatim(text); };
    const std::string said = write_answer(model, *inputs.tokenizer, ids, options, stops, show);
    ++options.seed;
    return said;
  };
  LineEditor lines("> ");
  const chat::DialogueOptions dialogue{system_prompt, lines.is_interactive()};
  chat::hold_dialogue(
      chat_template, dialogue, [&] { return lines.read(); }, {print, log_info, log_error}, dialogue_model);
}

}  // namespace fathom::app
