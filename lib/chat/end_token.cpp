// Special tokens are known by adding nothing to a text.
#include "chat/end_token.h"

namespace fathom::chat {

bool is_mark(std::string_view text) {
  return text.size() > 2 && (text.front() == '<' || text.front() == '[') && (text.back() == '>' || text.back() == ']');
}

std::optional<int32_t> end_token(const ChatTemplate& chat_template, const tokenizer::Tokenizer& tokenizer) {
  const std::string end = chat_template.end_of_turn();
  const std::vector<int32_t> ids = tokenizer.encode(end);
  if (ids.empty()) return std::nullopt;
  const bool is_special = tokenizer.token_bytes(ids.front()).empty();
  // Some folders add "<|im_end|>" without saying that it is special; "." is also one token, but no mark.
  return is_special || (ids.size() == 1 && is_mark(end)) ? std::optional(ids.front()) : std::nullopt;
}

}  // namespace fathom::chat
