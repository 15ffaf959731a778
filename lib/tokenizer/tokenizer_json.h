// The engine for tokenizer.json: byte-level BPE as Hugging Face's tokenizers run it.
#pragma once

#include <filesystem>
#include <memory>

#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// folder holds tokenizer.json; tokenizer_config.json and the like may stand beside it. A text is encoded so: added
// tokens are found in it, what lies between is normalized (NFC, where the file says so) and searched for the added
// tokens that want that, the rest is split into pieces, and pieces become ids by merging bytes. Throws Error naming
// file and key for whatever this engine would do differently.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& folder);

}  // namespace fathom::tokenizer
