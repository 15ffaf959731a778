// `fathom generate --chat`: a conversation with a model over stdin and stdout.
#pragma once

#include <string>
#include <vector>

#include "chat/chat_template.h"
#include "schedule/inputs.h"
#include "train/generate.h"

namespace fathom::app {

// Of the model's folder; throws Error where it has none.
chat::ChatTemplate open_chat_template(const weights::ModelFolder& folder);
// Answers end at the tokenizer's EOS, and at the token with which the template ends them, or the text where it is none.
void add_ends_of_turns(const chat::ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer,
                       train::GenerationOptions& options, std::vector<std::string>& stops);

// Needs the chat template of the model's folder. Each answer is written as it comes; the n-th is drawn with the seed +
// n. stops: texts at which an answer ends.
void hold_chat(model::Decoder& model, const schedule::RunInputs& inputs, train::GenerationOptions options,
               std::vector<std::string> stops, const std::string& system_prompt);

}  // namespace fathom::app
