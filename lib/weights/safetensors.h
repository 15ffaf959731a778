// One safetensors file: a mapped header of named, typed, shaped byte ranges; and a writer of the same.
// Format: https://github.com/huggingface/safetensors (u64 little-endian header length, JSON header, contiguous data).
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/file.h"

namespace fathom::weights {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // bytes from the start of the data section
  int64_t bytes = 0;
};

// A hostile file is refused with Error: header over 100 MB or past the end of the file, offsets that overlap, leave
// gaps or do not match shape and dtype, duplicate names, arithmetic that overflows.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);
  const std::vector<TensorInfo>& tensors() const { return tensors_; }  // in the order of their offsets
  const TensorInfo* find(const std::string& name) const;               // null if there is none
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // The mapped bytes of a tensor; valid while this object lives. Old files do not align them to the element's size.
  const std::byte* data(const TensorInfo& tensor) const;
  // Takes the tensor's bytes out of the process's resident memory, for one that was copied; they stay valid.
  void release(const TensorInfo& tensor) const { file_.release(data_start_ + tensor.offset, tensor.bytes); }
  const std::filesystem::path& path() const { return file_.path(); }

 private:
  MappedFile file_;
  int64_t data_start_ = 0;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, std::string> metadata_;
};

// A tensor to write: from where it lies in host memory, or through `read`, which is called once, in file order, and
// must fill `bytes` bytes at `destination`, so that only one tensor need be in host memory at a time.
struct TensorSource {
  // Of a tensor's bytes, whole numbers from byte `first` on.
  struct Sink {
    std::function<bool(int64_t first, int64_t bytes)> wants;  // any of them; null: all
    std::function<void(int64_t first, const std::byte* data, int64_t bytes)> take;
  };

  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::function<void(std::byte* destination, int64_t bytes)> read = nullptr;
  const std::byte* data = nullptr;  // contiguous; null: `read` gives the bytes
  // In the place of both: gives its bytes in ascending order; of a tensor in shares, those that this process has.
  std::function<void(const Sink& sink)> parts = nullptr;
};

enum class Numbers { kAny, kFinite };

// Without a remedy: whoever made the numbers has one.
class NotFinite : public Error {
 public:
  using Error::Error;
};

// Writes the file; neither syncs it nor renames it: the caller does that with the folder it stages. Tensors are ordered
// by dtype size descending, then by name, and the file's metadata is {"format": "pt"}. Returns the hash of its blocks
// (base/block_hash.h), computed while writing. kFinite: throws NotFinite at the first NaN or infinity, which is looked
// for in what lies in the processor's cache for the hash anyway; no second pass over memory.
std::string write_safetensors(const std::filesystem::path& path, const std::vector<TensorSource>& tensors,
                              Numbers numbers = Numbers::kAny);
// The size of that file.
int64_t safetensors_bytes(const std::vector<TensorSource>& tensors);

}  // namespace fathom::weights
