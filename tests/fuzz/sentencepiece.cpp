// A tokenizer.model.
#include "model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fathom::fuzz::open_model_file("tokenizer.model", data, size);
  return 0;
}
