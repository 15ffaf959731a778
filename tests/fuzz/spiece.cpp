// A spiece.model.
#include "model_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fathom::fuzz::open_model_file("spiece.model", data, size);
  return 0;
}
