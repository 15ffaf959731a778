// A file with a tokenizer's model: opened, and a text encoded with it and decoded again.
#pragma once

#include "base/error.h"
#include "scratch_folder.h"
#include "tokenizer/tokenizer.h"

namespace fathom::fuzz {

inline void open_model_file(const char* name, const uint8_t* data, size_t size) {
  static const ScratchFolder folder;
  folder.write(name, fuzz::text_of(data, size));
  try {
    const auto tokenizer = tokenizer::Tokenizer::open(folder.path());
    const auto encoding = tokenizer->encode_with_offsets("  A day's  work: 1234 ab\n Grüße, 世界 😀 <s> \xff\xfe ▁!");
    tokenizer->decode(encoding.ids);
    for (int32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
      tokenizer->piece(id);
      tokenizer->token_bytes(id);
    }
  } catch (const Error&) {
  }
}

}  // namespace fathom::fuzz
