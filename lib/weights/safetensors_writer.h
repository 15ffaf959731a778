// A safetensors file whose tensors come in any order, so that what gives several of them, a matrix its codes and its
// scales, need be there only once.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "weights/safetensors.h"

namespace fathom::weights {

class SafetensorsWriter {
 public:
  // The tensors as write_safetensors orders them; what they hold is not looked at yet.
  SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSource>& tensors);
  // One of them, each once, with what it holds now.
  void write(const TensorSource& tensor);
  // Throws Error if one was not written.
  void finish();

 private:
  struct Place {
    int64_t offset = 0, bytes = 0;
  };
  void write_at(int64_t offset, const void* data, int64_t bytes);

  std::filesystem::path path_;
  Descriptor file_;
  std::map<std::string, Place> missing_;
};

}  // namespace fathom::weights
