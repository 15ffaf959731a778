// A quantized model folder: the input is a quantization_config, a line break, then the header of the tensors, whose
// bytes follow as the header says, up to 64 KiB of them.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/json_value.h"
#include "quant/stored_matrix.h"
#include "scratch_folder.h"
#include "weights/folder.h"

namespace {

constexpr size_t kMostData = 64 << 10;

// As many bytes as the tensors take, so that a sound header gets as far as its tensors: those of the header again.
size_t data_bytes(std::string_view header) {
  size_t most = 0;
  const std::string key = "\"data_offsets\":[";
  for (size_t at = header.find(key); at != std::string_view::npos; at = header.find(key, at + 1)) {
    const size_t comma = header.find(',', at);
    if (comma == std::string_view::npos) break;
    most = std::max(most,
                    static_cast<size_t>(std::strtoull(std::string(header.substr(comma + 1, 20)).c_str(), nullptr, 10)));
  }
  return std::min(most, kMostData);
}

std::string file_of(std::string_view header) {
  std::string file;
  for (int byte = 0; byte < 8; ++byte) file.push_back(static_cast<char>(header.size() >> (8 * byte)));
  file += header;
  const size_t count = data_bytes(header);
  for (size_t i = 0; i < count; ++i) file.push_back(header.empty() ? '\0' : header[i % header.size()]);
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  const std::string_view text = fathom::fuzz::text_of(data, size);
  const size_t end = std::min(text.find('\n'), text.size());
  folder.write("config.json", "{}");
  folder.write("model.safetensors", file_of(text.substr(std::min(end + 1, text.size()))));
  try {
    const fathom::quant::FolderFormat format =
        fathom::quant::parse_quantization_config(fathom::parse_json(text.substr(0, end), "config.json"), "config.json");
    const fathom::weights::ModelFolder model(folder.path());
    const int64_t columns = std::max<int64_t>(64, fathom::quant::block_of(format.scheme));
    fathom::quant::find_matrix(model, format, "m.weight", 4, columns);
  } catch (const fathom::Error&) {
  }
  return 0;
}
