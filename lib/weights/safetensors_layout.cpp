// Orders tensors and writes the header.
#include "weights/safetensors_layout.h"

#include <algorithm>
#include <cerrno>

#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/system_error.h"

namespace fathom::weights {
namespace {

std::string header_text(const std::filesystem::path& path, const std::vector<Slot>& slots) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  int64_t offset = 0;
  for (const Slot& slot : slots) {
    int64_t end = checked_add(offset, slot.bytes, "size of " + path.string());
    nlohmann::ordered_json entry = {{"dtype", safetensors_name(slot.source->dtype)},
                                    {"shape", slot.source->shape},
                                    {"data_offsets", {offset, end}}};
    try {
      text += "," + nlohmann::json(slot.source->name).dump() + ":" + entry.dump();
    } catch (const nlohmann::json::exception&) {
      throw Error(path.string() + ": the name of a tensor is not valid UTF-8");
    }
    offset = end;
  }
  text += "}";
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data starts aligned to 8 bytes
  return text;
}

}  // namespace

std::vector<Slot> lay_out(const std::filesystem::path& path, const std::vector<TensorSource>& tensors) {
  std::vector<Slot> slots;
  for (const TensorSource& tensor : tensors) {
    int64_t bytes = size_of(tensor.dtype);
    for (int64_t size : tensor.shape) bytes = checked_multiply(bytes, size, "size of tensor " + tensor.name);
    slots.push_back({&tensor, bytes});
  }
  std::sort(slots.begin(), slots.end(), [](const Slot& a, const Slot& b) {
    int64_t size_a = size_of(a.source->dtype), size_b = size_of(b.source->dtype);
    return size_a != size_b ? size_a > size_b : a.source->name < b.source->name;
  });
  for (size_t index = 0; index < slots.size(); ++index) {
    const std::string& name = slots[index].source->name;
    if (name == "__metadata__" || (index > 0 && slots[index - 1].source->name == name)) {
      throw Error(path.string() + ": tensor name '" + name + "' occurs twice or is reserved");
    }
  }
  return slots;
}

std::string file_start(const std::filesystem::path& path, const std::vector<Slot>& slots) {
  const std::string header = header_text(path, slots);
  std::string start;
  for (int byte = 0; byte < 8; ++byte) start += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
  return start + header;
}

int64_t data_bytes(const std::filesystem::path& path, const std::vector<Slot>& slots) {
  int64_t bytes = 0;
  for (const Slot& slot : slots) bytes = checked_add(bytes, slot.bytes, "size of " + path.string());
  return bytes;
}

[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* what) {
  throw system_error(path.string() + ": " + what + " failed", errno);
}

}  // namespace fathom::weights
