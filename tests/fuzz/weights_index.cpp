// The index of a model in shards: two sound shards lie beside it.
#include <vector>

#include "base/error.h"
#include "scratch_folder.h"
#include "weights/folder.h"

namespace {

// {"name": F32 [1]} with four zero bytes.
std::string shard(const std::string& name) {
  const std::string header = R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  std::string file;
  for (int byte = 0; byte < 8; ++byte) file.push_back(static_cast<char>(header.size() >> (8 * byte)));
  return file + header + std::string(4, '\0');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const fathom::fuzz::ScratchFolder folder;
  static const bool prepared = [] {
    folder.write("config.json", "{}");
    folder.write("model-00001-of-00002.safetensors", shard("a"));
    folder.write("model-00002-of-00002.safetensors", shard("b"));
    return true;
  }();
  folder.write("model.safetensors.index.json", fathom::fuzz::text_of(data, size));
  try {
    const fathom::weights::ModelFolder model(folder.path());
    for (const std::string& name : model.names()) static_cast<void>(model.find(name)->data());
  } catch (const fathom::Error&) {
  }
  return prepared ? 0 : 1;
}
