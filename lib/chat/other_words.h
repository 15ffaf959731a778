// Conversations with other words of the same shape: what differs in their renderings is what somebody says.
#pragma once

#include <span>
#include <string>

#include "base/json.h"

namespace fathom::chat {

enum class Speaker { kAssistant, kOthers };

// The messages with other letters and digits, one for one and of as many bytes, in all that one side says: contents,
// thoughts, what calls are given. Roles, names, identities, keys, blanks and marks stay, and so do the texts of `kept`
// wherever they are: a template may look for them.
Json with_other_words(const Json& messages, Speaker speaker, std::span<const std::string> kept);

// The same for the documents and the descriptions of tools among a template's variables, which the others bring.
Json with_other_descriptions(const Json& variables, std::span<const std::string> kept);

}  // namespace fathom::chat
