// `fathom generate --chat`: a conversation with a model over stdin and stdout.
#pragma once

#include <string>

#include "train/generate.h"
#include "train/inputs.h"

namespace fathom::app {

// Needs the chat template of the model's folder. Each answer is written as it comes; the n-th is drawn with the seed +
// n.
void hold_chat(model::Llama& model, const train::RunInputs& inputs, train::GenerationOptions options,
               const std::string& system_prompt);

}  // namespace fathom::app
