// What the assistant says in a rendered conversation, for templates that do not mark it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/byte_range.h"
#include "jinja/template.h"

namespace fathom::chat {

// Renders messages: the conversation, or its beginning. All renderings share one account of time and memory.
using Render = std::function<jinja::Rendered(const Json& messages, bool add_generation_prompt)>;

// The assistant's turns in `whole`, which render(messages, false) gave: each begins behind what the template writes to
// make the assistant speak, and ends with its end token. By what the template wrote while it stood at each message,
// which takes one more rendering for each role that the assistant answers; where it does not go through the messages
// one by one, by rendering the conversation up to each turn. Throws Error where that is not the start of the whole.
std::vector<ByteRange> find_assistant_turns(const Json& messages, const jinja::Rendered& whole, const Render& render,
                                            const std::string& origin);

}  // namespace fathom::chat
