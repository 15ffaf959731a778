// Conversations of a line in the one form that chat templates read.
#pragma once

#include "data/line.h"

namespace fathom::data {

struct Conversation {
  Json messages;   // objects with role and content
  Json variables;  // what else the template may read: tools and chat_template_kwargs
};

// {"messages": [{role, content}, …]}
Conversation read_messages(const Line& line, const char* key = "messages");
// ShareGPT: {"conversations": [{from, value}, …], "system"?}, with human, gpt, system and tool.
Conversation read_sharegpt(const Line& line);

}  // namespace fathom::data
