// The token at which an answer in a conversation ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace fathom::chat {

// A text like "<|im_end|>" or "[/INST]", which nobody says.
bool is_mark(std::string_view text);

// The first token that the template writes behind an answer, where it is a special one or a mark like "<|im_end|>" in
// one token. Unset where the template ends answers with other text, or with none.
std::optional<int32_t> end_token(const ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer);

}  // namespace fathom::chat
