// One answer of a model, shown as it comes.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.h"
#include "train/generate.h"

namespace fathom::app {

// Continues the prompt until a stop id, a stop text or the most tokens; hands each piece of the answer to `show` as it
// comes, and returns the whole.
std::string write_answer(model::Decoder& model, const tokenizer::Tokenizer& tokenizer,
                         const std::vector<int32_t>& prompt, const train::GenerationOptions& options,
                         const std::vector<std::string>& stops, const std::function<void(const std::string&)>& show);

}  // namespace fathom::app
