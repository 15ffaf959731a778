// A safetensors file: its header is parsed, and every byte of every tensor that it names is read.
#include "weights/safetensors.h"

#include "base/error.h"
#include "scratch_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  try {
    const fathom::weights::SafetensorsFile file(folder.write("x.safetensors", fathom::fuzz::text_of(data, size)));
    int64_t sum = 0;
    for (const fathom::weights::TensorInfo& tensor : file.tensors()) {
      const std::byte* bytes = file.data(tensor);
      for (int64_t i = 0; i < tensor.bytes; ++i) sum += std::to_integer<int64_t>(bytes[i]);
      file.release(tensor);
    }
    if (sum < 0) std::abort();  // so that the bytes are really read
  } catch (const fathom::Error&) {
  }
  return 0;
}
