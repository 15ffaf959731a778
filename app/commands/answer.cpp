// Tokens to text, text to what may be shown.
#include "app/commands/answer.h"

#include <algorithm>

#include "base/error.h"
#include "chat/stop_texts.h"
#include "tokenizer/stream_decoder.h"

namespace fathom::app {
namespace {

void refuse_placeholders(const std::vector<int32_t>& prompt, const arch::TextPart& part,
                         const tokenizer::Tokenizer& tokenizer) {
  const auto found = std::ranges::find_first_of(prompt, part.placeholder_ids);
  if (found == prompt.end()) return;
  throw UsageError("the prompt holds the token " + std::to_string(*found) + " (" + tokenizer.piece(*found) +
                       "), in whose place " + part.whole + " reads a picture or sound",
                   "fathom reads text alone: take it out");
}

}  // namespace

std::string write_answer(model::Decoder& model, const tokenizer::Tokenizer& tokenizer,
                         const std::vector<int32_t>& prompt, const train::GenerationOptions& options,
                         const std::vector<std::string>& stops, const std::function<void(const std::string&)>& show) {
  if (const auto& part = model.architecture().text_part) refuse_placeholders(prompt, *part, tokenizer);
  tokenizer::StreamDecoder decoder(tokenizer);
  chat::StopTexts stop(stops);
  std::string said;
  const auto take = [&](const std::string& text) {
    if (text.empty()) return;
    said += text;
    show(text);
  };
  train::generate(model, prompt, options, [&](int32_t id) {
    take(stop.push(decoder.push(id)));
    return !stop.has_ended();
  });
  take(stop.push(decoder.finish()));
  take(stop.finish());
  return said;
}

}  // namespace fathom::app
