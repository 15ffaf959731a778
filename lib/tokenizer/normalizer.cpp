// Reads NFC and Sequence.
#include "tokenizer/normalizer.h"

#include <algorithm>

#include "tokenizer/json_part.h"
#include "tokenizer/normal_form.h"

namespace fathom::tokenizer {

void Rewritten::take(std::string rewritten, OffsetMap origins) {
  buffer = std::move(rewritten);
  text = buffer;
  steps.push_back(std::move(origins));
}

size_t Rewritten::origin(size_t at) const {
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) at = step->origin(at);
  return at;
}

Normalizer::Normalizer(const Json& json, const std::string& file) {
  if (const Json* part = find_key(json, "normalizer")) read(*part, file + ": normalizer");
}

void Normalizer::read(const Json& part, const std::string& where) {
  const std::string type = type_of(part, where);
  if (type == "NFC") {
    composes_ = true;
  } else if (type == "Sequence") {
    const Json& parts = list_of(part, "normalizers", where);
    for (size_t i = 0; i < parts.size(); ++i) read(parts[i], where + ".normalizers[" + std::to_string(i) + "]");
  } else {
    refuse_type(where, type, "NFC, Sequence, none");
  }
}

void Normalizer::apply(Rewritten& text) const {
  if (!composes_ || is_plainly_composed(text.text)) return;
  OffsetMap origins;
  std::string composed = compose(text.text, &origins);
  text.take(std::move(composed), std::move(origins));
}

}  // namespace fathom::tokenizer
