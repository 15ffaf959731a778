// Runs of tokens with equal fate, decoded.
#include "data/segments.h"

namespace fathom::data {

std::vector<Segment> segments_of(const Example& example, const tokenizer::Tokenizer* tokenizer) {
  std::vector<Segment> segments;
  const auto text_of = [&](int32_t id) -> std::string {
    if (tokenizer == nullptr) return " " + std::to_string(id);
    const std::string text = tokenizer->token_bytes(id);
    return text.empty() ? tokenizer->piece(id) : text;
  };
  for (size_t i = 0; i < example.ids.size(); ++i) {
    const bool counts = i > 0 && example.labels[i] != kIgnored;
    if (segments.empty() || segments.back().counts != counts) segments.push_back({"", counts, 0});
    segments.back().text += text_of(example.ids[i]);
    ++segments.back().tokens;
  }
  return segments;
}

}  // namespace fathom::data
