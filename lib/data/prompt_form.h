// In which words a run put the prompts that it was trained on.
#pragma once

#include <optional>
#include <string>

#include "config/run_config.h"

namespace fathom::data {

enum class PromptForm {
  kPlain,   // as they stand
  kAlpaca,  // inside Stanford Alpaca's words
  kChat,    // as a user's turn, by the chat template
};

// The prompt of Stanford Alpaca (Taori et al., 2023), which the models trained on such data know.
std::string alpaca_prompt(const std::string& instruction, const std::string& input);

// Of the run's training data: as dataset_format says, and where that leaves it open as the first line of its first file
// says. Unset where that cannot be read (the file is gone), or where the run names none.
std::optional<PromptForm> prompt_form_of(const config::RunConfig& run);

}  // namespace fathom::data
