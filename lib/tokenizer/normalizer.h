// What tokenizer.json's normalizer makes of a text before anything else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tokenizer/offset_map.h"

namespace fathom::tokenizer {

// A text that was rewritten several times, and where its bytes came from.
struct Rewritten {
  std::string_view text;
  std::string buffer;            // holds the text, where it is not what was given
  std::vector<OffsetMap> steps;  // first to last

  explicit Rewritten(std::string_view given) : text(given) {}
  Rewritten(const Rewritten&) = delete;  // of a view of itself
  Rewritten& operator=(const Rewritten&) = delete;
  void take(std::string rewritten, OffsetMap origins);
  size_t origin(size_t at) const;
};

class Normalizer {
 public:
  Normalizer() = default;
  // json: the whole file. Throws Error naming `file` and key for what is not supported.
  Normalizer(const Json& json, const std::string& file);

  // Normalizes a text, which is well-formed.
  void apply(Rewritten& text) const;

 private:
  void read(const Json& part, const std::string& where);

  bool composes_ = false;
};

}  // namespace fathom::tokenizer
