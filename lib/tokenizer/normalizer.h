// What tokenizer.json's normalizer makes of a text before anything else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "tokenizer/character_map.h"
#include "tokenizer/normal_form.h"
#include "tokenizer/offset_map.h"
#include "tokenizer/regex.h"

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
  explicit Normalizer(CharacterMap map) { steps_.emplace_back(std::move(map)); }
  // json: the whole file. Throws Error naming `file` and key for what is not supported.
  Normalizer(const Json& json, const std::string& file);

  // Normalizes a text, which is well-formed. budget: of the patterns. Throws Error where the text becomes more than 32
  // times as long.
  void apply(Rewritten& text, MatchBudget& budget) const;

 private:
  struct Composition {
    NormalForm form;
  };
  struct Prefix {  // put before every text that is not empty
    std::string text;
  };
  struct Strip {  // white space
    bool left, right;
  };
  struct Replacement {
    std::string literal;           // what is replaced, or
    std::optional<Regex> pattern;  // where that is empty
    std::string content, where;
  };
  using Step = std::variant<Composition, Prefix, CharacterMap, Strip, Replacement>;
  void read(const Json& part, const std::string& where);

  std::vector<Step> steps_;
};

}  // namespace fathom::tokenizer
