// Answers of a model in a conversation.
#include "app/commands/hold_chat.h"

#include <unistd.h>

#include <iostream>

#include "base/error.h"
#include "base/log.h"
#include "base/output.h"
#include "chat/dialogue.h"
#include "chat/end_token.h"
#include "tokenizer/stream_decoder.h"

namespace fathom::app {

void hold_chat(model::Llama& model, const train::RunInputs& inputs, train::GenerationOptions options,
               const std::string& system_prompt) {
  const std::filesystem::path folder = inputs.folder->path();
  const auto chat_template = chat::ChatTemplate::open(folder);
  if (!chat_template) {
    throw Error(
        folder.string() + " has no chat template",
        "--chat needs chat_template.jinja, or chat_template in tokenizer_config.json; without it there is --prompt");
  }
  if (inputs.tokenizer->eos_id) options.stop_ids.push_back(*inputs.tokenizer->eos_id);
  if (const auto end = chat::end_token(*chat_template, *inputs.tokenizer)) options.stop_ids.push_back(*end);
  const auto answer = [&](const std::string& prompt) {
    tokenizer::StreamDecoder decoder(*inputs.tokenizer);
    std::string said;
    const auto show = [&](const std::string& text) {
      print_verbatim(text);
      said += text;
    };
    // The template writes BOS and the like itself.
    train::generate(model, inputs.tokenizer->encode(prompt), options, [&](int32_t id) { show(decoder.push(id)); });
    show(decoder.finish());
    ++options.seed;
    return said;
  };
  const chat::DialogueOptions dialogue{system_prompt, ::isatty(STDIN_FILENO) == 1};
  chat::hold_dialogue(*chat_template, dialogue, std::cin, {print, log_error}, answer);
}

}  // namespace fathom::app
