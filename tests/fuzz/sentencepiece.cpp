// A tokenizer.model: opened, and a text encoded with it and decoded again.
#include "base/error.h"
#include "scratch_folder.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  folder.write("tokenizer.model", fathom::fuzz::text_of(data, size));
  try {
    const auto tokenizer = fathom::tokenizer::Tokenizer::open(folder.path());
    const auto encoding = tokenizer->encode_with_offsets("  A day's  work: 1234 ab\n Grüße, 世界 😀 <s> \xff\xfe ▁!");
    tokenizer->decode(encoding.ids);
    for (int32_t id = 0; id < tokenizer->vocabulary_size(); ++id) {
      tokenizer->piece(id);
      tokenizer->token_bytes(id);
    }
  } catch (const fathom::Error&) {
  }
  return 0;
}
