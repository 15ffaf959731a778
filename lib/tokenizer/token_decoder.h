// What the tokens of a model over characters add to a text, as tokenizer.json's decoder says.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace fathom::tokenizer {

class TokenDecoder {
 public:
  // json: the whole file. Throws Error naming `file` and key for what is not supported.
  TokenDecoder(const Json& json, const std::string& file);

  // Of a token as it is spelled; first: it is the text's first that adds anything.
  std::string bytes(std::string_view spelling, bool first) const;
  bool falls_back() const { return falls_back_; }

 private:
  struct Replacement {
    std::string from, to;
  };
  void read(const Json& part, const std::string& where);

  std::vector<Replacement> replacements_;
  bool marks_ = false;         // Metaspace: marks become blanks,
  bool drops_marks_ = false;   // but those of the first token go
  bool falls_back_ = false;    // "<0x41>" stands for the byte
  bool fused_ = false;         // all that comes is of the whole text
  std::string dropped_first_;  // that the text begins with, once
};

}  // namespace fathom::tokenizer
