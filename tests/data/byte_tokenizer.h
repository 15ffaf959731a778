// A tokenizer for tests: one token per byte, but "ab" merges into one (200); 1 is BOS, 2 is EOS, which "$" stands for
// where it is not literal.
#pragma once

#include "tokenizer/tokenizer.h"

namespace fathom::data::testing {

class ByteTokenizer : public tokenizer::Tokenizer {
 public:
  ByteTokenizer() {
    bos_id = 1;
    eos_id = 2;
  }
  std::vector<int32_t> encode(std::string_view text) const override { return encode_with_offsets(text, {}).ids; }
  tokenizer::Encoding encode_with_offsets(std::string_view text, tokenizer::Literals literals) const override {
    const auto is_literal = [&](size_t at) {
      for (const tokenizer::Literal& literal : literals) {
        if (literal.begin <= at && at < literal.end) return true;
      }
      return false;
    };
    tokenizer::Encoding encoding;
    for (size_t at = 0; at < text.size(); ++at) {
      encoding.begins.push_back(static_cast<int64_t>(at));
      const bool merged = text.substr(at, 2) == "ab";
      encoding.ids.push_back(merged ? 200 : text[at] == '$' && !is_literal(at) ? 2 : text[at]);
      at += merged;
    }
    return encoding;
  }
  std::vector<tokenizer::SpecialText> special_tokens_in(std::string_view text) const override {
    std::vector<tokenizer::SpecialText> found;
    for (size_t at = 0; (at = text.find('$', at)) != std::string_view::npos; ++at) found.push_back({at, at + 1, 2});
    return found;
  }
  std::string token_bytes(int32_t id) const override {
    return id == 200 ? "ab" : id < 3 ? "" : std::string(1, static_cast<char>(id));
  }
  std::string piece(int32_t id) const override { return id == 2 ? "$" : token_bytes(id); }
  int64_t vocabulary_size() const override { return 256; }
};

}  // namespace fathom::data::testing
