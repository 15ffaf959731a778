// Writes tensors into a safetensors file, one at a time: in the file's order, hashing what goes out, or in any.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finite.h"
#include "base/hash.h"
#include "base/system_error.h"
#include "weights/safetensors.h"
#include "weights/safetensors_writer.h"

namespace fathom::weights {
namespace {

constexpr DType kBytes = DType::kU8;  // what is always finite

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw system_error(path.string() + ": " + what + " failed", errno);
}

// A new file, and the hash of all that was written into it.
class HashedFile {
 public:
  explicit HashedFile(const std::filesystem::path& path)
      : path_(path), file_(open_to_write(path, O_WRONLY | O_TRUNC)) {}

  // In pieces that stay in the processor's cache between the look, the hash and the write. False: it ended before one
  // that holds a number of this type which is not finite.
  bool write(const std::byte* data, int64_t size, DType type) {
    for (; size > 0; data += kPiece, size -= kPiece) {
      const int64_t piece = std::min(size, kPiece);
      if (!all_finite(data, type, piece)) return false;
      write_piece(data, static_cast<size_t>(piece));
    }
    return true;
  }
  std::string hash() const { return hasher_.digest(); }

 private:
  static constexpr int64_t kPiece = 1 << 20;

  void write_piece(const std::byte* data, size_t size) {
    hasher_.update(data, size);
    if (!write_whole(file_, data, size)) fail(path_, "writing");
  }

  std::filesystem::path path_;
  Descriptor file_;
  Hasher hasher_;
};

struct Slot {
  const TensorSource* source;
  int64_t bytes;
};

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

// The header with its length in front.
std::string file_start(const std::filesystem::path& path, const std::vector<Slot>& slots) {
  const std::string header = header_text(path, slots);
  std::string start;
  for (int byte = 0; byte < 8; ++byte) start += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
  return start + header;
}

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                              Numbers numbers) {
  const std::vector<Slot> slots = lay_out(path, tensors);
  const std::string start = file_start(path, slots);
  HashedFile file(path);
  file.write(reinterpret_cast<const std::byte*>(start.data()), std::ssize(start), kBytes);
  int64_t largest = 0;
  for (const Slot& slot : slots) largest = std::max(largest, slot.source->data == nullptr ? slot.bytes : 0);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(largest));
  for (const Slot& slot : slots) {
    if (slot.source->data == nullptr) slot.source->read(buffer.get(), slot.bytes);
    const std::byte* data = slot.source->data == nullptr ? buffer.get() : slot.source->data;
    if (!file.write(data, slot.bytes, numbers == Numbers::kFinite ? slot.source->dtype : kBytes)) {
      throw NotFinite("the weights of " + slot.source->name + " are not finite, and are not kept");
    }
  }
  return file.hash();
}

void read_in_order(const std::vector<TensorSource>& tensors) {
  for (const Slot& slot : lay_out("a safetensors file", tensors)) slot.source->read(nullptr, slot.bytes);
}

int64_t safetensors_bytes(const std::vector<TensorSource>& tensors) {
  const std::filesystem::path none = "a safetensors file";
  const std::vector<Slot> slots = lay_out(none, tensors);
  int64_t bytes = 8 + std::ssize(header_text(none, slots));
  for (const Slot& slot : slots) bytes = checked_add(bytes, slot.bytes, "size of a safetensors file");
  return bytes;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSource>& tensors)
    : path_(path), file_(open_to_write(path, O_WRONLY | O_TRUNC)) {
  const std::vector<Slot> slots = lay_out(path, tensors);
  const std::string start = file_start(path, slots);
  write_at(0, start.data(), std::ssize(start));
  int64_t offset = std::ssize(start);
  for (const Slot& slot : slots) {
    missing_[slot.source->name] = {offset, slot.bytes};
    offset = checked_add(offset, slot.bytes, "size of " + path.string());
  }
}

void SafetensorsWriter::write(const TensorSource& tensor) {
  const auto found = missing_.find(tensor.name);
  if (found == missing_.end()) throw Error(path_.string() + ": tensor '" + tensor.name + "' has no place left");
  const auto [offset, bytes] = found->second;
  if (tensor.data != nullptr) {
    write_at(offset, tensor.data, bytes);
  } else {
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    tensor.read(buffer.get(), bytes);
    write_at(offset, buffer.get(), bytes);
  }
  missing_.erase(found);
}

void SafetensorsWriter::finish() {
  if (!missing_.empty()) {
    throw Error(path_.string() + ": tensor '" + missing_.begin()->first + "' was not written");
  }
}

void SafetensorsWriter::write_at(int64_t offset, const void* data, int64_t bytes) {
  if (::lseek(file_.get(), offset, SEEK_SET) < 0) fail(path_, "seeking");
  if (!write_whole(file_, data, static_cast<size_t>(bytes))) fail(path_, "writing");
}

}  // namespace fathom::weights
