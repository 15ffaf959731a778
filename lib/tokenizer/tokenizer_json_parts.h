// The parts of tokenizer.json that are of all models: post_processor, added_tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "tokenizer/special_tokens.h"

namespace fathom::tokenizer {

// All take the whole file and its name, and throw Error naming file and key for what is not supported.

// What post_processor puts around a single text.
struct Affixes {
  std::optional<int32_t> before, after;
};
Affixes read_affixes(const Json& json, const std::string& file);

std::vector<AddedToken> read_added_tokens(const Json& json, const std::string& file);

}  // namespace fathom::tokenizer
