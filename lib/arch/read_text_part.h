// A config.json of a model of text, pictures and sound in the words of its text part.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "arch/architecture.h"
#include "base/json_value.h"

namespace fathom::arch {

struct TextWords {
  Json config;                   // as a decoder of text alone has it, with the defaults that its class has as a part
  std::string origin;            // for errors
  std::optional<TextPart> part;  // with the names that transformers 5 saves; unset: the folder holds nothing else
};

// Nothing for a config.json of a decoder alone. Throws Error where the text part is missing or of no known type.
std::optional<TextWords> text_words(const Json& config, std::string_view origin);

// The object of a config.json in which the decoder's own keys stand: text_config, or all of it.
Json& text_config_of(Json& config);

}  // namespace fathom::arch
