// What a chat template makes of the parts of a conversation: by rendering it without them, or with other words.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/conversation.h"
#include "tokenizer/tokenizer.h"

namespace fathom::data {

// The text of a conversation that is given, or of one that is like it.
using RenderText = std::function<std::string(const Json& messages, const Json& variables)>;

// Notes the parts that the text would be the same without: messages of the system and of tools, keys of messages,
// tools. Gives true where calls of tools are among them.
bool note_unwritten(const Conversation& conversation, std::string_view text, const RenderText& render,
                    LineNotes& notes);

// The texts of special tokens in what is said, described and called, each as often as it is there.
std::vector<std::string> special_texts(const Conversation& conversation, const tokenizer::Tokenizer& tokenizer);

// Fails, naming the line, for one of these that a vocabulary makes of text all the same (T5's "</s>").
void refuse_unsplit(const Line& line, const std::vector<std::string>& special_texts,
                    const tokenizer::Tokenizer& tokenizer);

// Where those stand in the text, by rendering the conversation with marks in their places. Throws Error, naming the
// line, where the template does not write what is said as it stands, so that its own tokens cannot be told from these.
std::vector<tokenizer::Literal> special_text_places(const Line& line, const Conversation& conversation,
                                                    std::string_view text, const tokenizer::Tokenizer& tokenizer,
                                                    const RenderText& render);

}  // namespace fathom::data
