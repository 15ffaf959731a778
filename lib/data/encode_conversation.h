// A conversation to an example, by the model's chat template.
#pragma once

#include "data/conversation.h"
#include "data/encode.h"

namespace fathom::data {

// The conversation; of a line of prompt and completion, `answered` messages of it are the prompt (0: no such line).
// Notes what the template never writes, empty answers, special tokens that the words hold, and how much of what counts
// the assistant says. Throws Error, naming the line, for what the template refuses, and EveryLineFails for a template
// that takes more than it may.
Example encode_conversation(const Line& line, const Conversation& conversation, size_t answered,
                            const tokenizer::Tokenizer& tokenizer, const chat::ChatTemplate& chat,
                            const DatasetOptions& options, LineNotes& notes);

}  // namespace fathom::data
