// Collects the bytes of ids and hands out the characters that they complete.
#include "tokenizer/stream_decoder.h"

#include <algorithm>

#include "tokenizer/utf8.h"

namespace fathom::tokenizer {

std::string StreamDecoder::push(int32_t id) {
  std::string bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) return "";
  if (at_start_) bytes = tokenizer_.first_token_bytes(id);
  at_start_ = false;
  waiting_ += bytes;
  const size_t longest_part = std::min<size_t>(waiting_.size(), 3);
  size_t kept = 0;
  for (size_t length = 1; length <= longest_part; ++length) {
    if (is_cut_off(std::string_view(waiting_).substr(waiting_.size() - length))) kept = length;
  }
  std::string rest = waiting_.substr(waiting_.size() - kept);
  waiting_.resize(waiting_.size() - kept);
  std::string text = replace_ill_formed(waiting_);
  waiting_ = std::move(rest);
  return text;
}

std::string StreamDecoder::finish() {
  std::string text = replace_ill_formed(waiting_);
  waiting_.clear();
  return text;
}

}  // namespace fathom::tokenizer
