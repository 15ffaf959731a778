// Special tokens are known by adding nothing to a text.
#include "chat/end_token.h"

namespace fathom::chat {

std::optional<int32_t> end_token(const ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer) {
  const std::string end = chat_template.end_of_turn();
  const std::vector<int32_t> ids = tokenizer.encode(end);
  if (ids.empty()) return std::nullopt;
  const bool is_special = tokenizer.token_bytes(ids.front()).empty();
  // Some folders add "<|im_end|>" without saying that it is special; "." is also one token, but no mark.
  const bool is_mark = ids.size() == 1 && (end.front() == '<' || end.front() == '[') && end.size() > 2;
  return is_special || is_mark ? std::optional(ids.front()) : std::nullopt;
}

}  // namespace fathom::chat
