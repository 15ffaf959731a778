// The parts of tokenizer.json around the model: normalizer, decoder, post_processor, added_tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/special_tokens.h"

namespace fathom::tokenizer {

// All take the whole file and its name, and throw Error naming file and key for what is not supported.

// Whether texts are brought to NFC first; the other normalizer that there is is none.
bool reads_composed(const Json& json, const std::string& file);

// The decoder must be ByteLevel.
void check_decoder(const Json& json, const std::string& file);

// What post_processor puts around a single text.
struct Affixes {
  std::optional<int32_t> before, after;
};
Affixes read_affixes(const Json& json, const std::string& file);

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& file);

}  // namespace fathom::tokenizer
