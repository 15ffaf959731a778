// Opens a tokenizer.json, to be run as Hugging Face's tokenizers run it.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// folder holds tokenizer.json; tokenizer_config.json and the like may stand beside it. Throws Error naming file and key
// for whatever would be done differently here.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
