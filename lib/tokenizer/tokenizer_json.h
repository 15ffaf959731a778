// Opens a tokenizer.json, to be run as Hugging Face's tokenizers run it.
#pragma once

#include <filesystem>
#include <memory>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// folder holds tokenizer.json; tokenizer_config.json and the like may stand beside it. Throws Error naming file and key
// for whatever would be done differently here.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder);

// Whether a tokenizer.json is a byte-pair encoding over characters: its tokens do not spell bytes. json: the whole
// file.
bool is_character_bpe(const Json& json);

}  // namespace fathom::tokenizer
