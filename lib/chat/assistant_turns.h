// What the assistant says in a rendered conversation, for templates that do not mark it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "chat/byte_range.h"
#include "chat/other_words.h"
#include "jinja/template.h"

namespace fathom::chat {

struct Renderings {
  // The messages: the conversation, or its beginning.
  std::function<jinja::Rendered(const Json& messages, bool add_generation_prompt)> render;
  // The conversation with other words of one side; all of them, or but those that the template may look for.
  enum class Words { kAll, kUnknown };
  std::function<jinja::Rendered(Speaker speaker, Words words)> render_otherwise;
};

// The assistant's turns in `whole`, which render(messages, false) gave: each begins behind what the template writes to
// make the assistant speak, and ends with its end token. By what the template wrote while it stood at each message,
// which takes one more rendering for each role that the assistant answers; where it does not go through the messages
// one by one, by rendering the conversation up to each turn.
//
// Proved by two renderings with other words: every byte that differs with the assistant's words counts, and none that
// differs with the others'; what counts beside these is the template's own text of that turn. Where a template writes
// what others said inside the assistant's turn, the turn ends before it, as one more rendering up to there tells.
// Throws Error where that cannot be told.
std::vector<ByteRange> find_assistant_turns(const Json& messages, const jinja::Rendered& whole,
                                            const Renderings& renderings, const std::string& origin);

}  // namespace fathom::chat
