// What the tensors of a decoder are called where it is the text part of a folder (TextPart).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "arch/architecture.h"

namespace fathom::arch {

// In the folder, of a tensor or module that the decoder calls `name`.
std::string stored_name(const std::optional<TextPart>& part, const std::string& name);
// In transformers' model of all parts, which PEFT names adapters after: "model.language_model.layers.3.mlp.up_proj".
std::string name_in_whole(const std::optional<TextPart>& part, const std::string& name);
// As a regular expression, the names of what transformers' model has beside it (weights/other_parts.h).
std::string pattern_of_other_parts();
// Back from what any folder or adapter calls it; all other names stay: "model.layers.3.mlp.up_proj".
std::string name_in_decoder(const std::string& name);

// What a file calls a tensor of the decoder, in any spelling: the one for which `has` is true; none: as it is.
std::string found_name(const std::string& name, const std::function<bool(const std::string&)>& has);
// Sets what a folder with such tensors has for "model." and for "lm_head."; what it has none of stays.
void find_names(TextPart& part, const std::function<bool(const std::string&)>& has);

}  // namespace fathom::arch
