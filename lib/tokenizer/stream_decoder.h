// Ids to text as they come: whole characters only, so that a terminal never sees half of one.
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/tokenizer.h"

namespace fathom::tokenizer {

// What push and finish return, put together, is what the tokenizer decodes from all the ids.
class StreamDecoder {
 public:
  // The tokenizer outlives the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // The text that is certain after this id; the bytes of a character that is not whole yet wait for the next.
  std::string push(int32_t id);
  // The rest, at the end: U+FFFD where a character stayed cut off.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  bool at_start_ = true;
  std::string waiting_;
};

}  // namespace fathom::tokenizer
