// Writes tensors into a safetensors file, one at a time: in the file's order, hashing what goes out, or in any.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "base/block_hash.h"
#include "base/bytes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/file.h"
#include "base/finite.h"
#include "weights/safetensors.h"
#include "weights/safetensors_layout.h"
#include "weights/safetensors_writer.h"

namespace fathom::weights {
namespace {

constexpr DType kBytes = DType::kU8;  // what is always finite

// A new file, and the hash of all that was written into it.
class HashedFile {
 public:
  HashedFile(const std::filesystem::path& path, int64_t bytes)
      : path_(path), file_(open_to_write(path, O_WRONLY | O_TRUNC)), bytes_(bytes), hasher_(bytes) {}

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
  std::string hash() const { return hash_of_blocks(hasher_.hashes(), bytes_); }

 private:
  static constexpr int64_t kPiece = 1 << 20;

  void write_piece(const std::byte* data, size_t size) {
    hasher_.add(written_, data, static_cast<int64_t>(size));
    if (!write_whole(file_, data, size)) fail_to_write(path_, "writing");
    written_ += static_cast<int64_t>(size);
  }

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_, written_ = 0;
  BlockHasher hasher_;
};

}  // namespace

std::string write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                              Numbers numbers) {
  const std::vector<Slot> slots = lay_out(path, tensors);
  const std::string start = file_start(path, slots);
  HashedFile file(path, checked_add(std::ssize(start), data_bytes(path, slots), "size of " + path.string()));
  file.write(reinterpret_cast<const std::byte*>(start.data()), std::ssize(start), kBytes);
  int64_t largest = 0;
  for (const Slot& slot : slots)
    largest = std::max(largest, slot.source->data == nullptr && slot.source->read ? slot.bytes : 0);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(largest));
  for (const Slot& slot : slots) {
    const TensorSource& source = *slot.source;
    const auto write = [&](const std::byte* data, int64_t bytes) {
      if (file.write(data, bytes, numbers == Numbers::kFinite ? source.dtype : kBytes)) return;
      throw NotFinite("the weights of " + source.name + " are not finite, and are not kept");
    };
    if (source.parts) {
      source.parts({{}, [&](int64_t, const std::byte* data, int64_t bytes) { write(data, bytes); }});
    } else if (source.data != nullptr) {
      write(source.data, slot.bytes);
    } else {
      source.read(buffer.get(), slot.bytes);
      write(buffer.get(), slot.bytes);
    }
  }
  return file.hash();
}

int64_t safetensors_bytes(const std::vector<TensorSource>& tensors) {
  const std::filesystem::path none = "a safetensors file";
  const std::vector<Slot> slots = lay_out(none, tensors);
  return checked_add(std::ssize(file_start(none, slots)), data_bytes(none, slots), "size of a safetensors file");
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
  if (::lseek(file_.get(), offset, SEEK_SET) < 0) fail_to_write(path_, "seeking");
  if (!write_whole(file_, data, static_cast<size_t>(bytes))) fail_to_write(path_, "writing");
}

}  // namespace fathom::weights
