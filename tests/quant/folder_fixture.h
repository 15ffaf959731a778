// A model folder on disk with tensors of chosen bytes, for what reads quantized matrices.
#pragma once

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "weights/folder.h"
#include "weights/safetensors.h"

namespace fathom::quant {

class ScratchModel {
 public:
  ScratchModel() : path_(std::filesystem::temp_directory_path() / ("fathom_quant_" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    std::ofstream(path_ / "config.json") << "{}";
  }
  ~ScratchModel() { std::filesystem::remove_all(path_); }
  ScratchModel(const ScratchModel&) = delete;
  ScratchModel& operator=(const ScratchModel&) = delete;

  weights::ModelFolder open(const std::vector<weights::TensorSource>& tensors) const {
    weights::write_safetensors(path_ / "model.safetensors", tensors);
    return weights::ModelFolder(path_);
  }

 private:
  std::filesystem::path path_;
};

template <typename T>
weights::TensorSource tensor_of(const std::string& name, DType dtype, std::vector<int64_t> shape,
                                std::vector<T> values) {
  return {name, dtype, std::move(shape), [values = std::move(values)](std::byte* out, int64_t bytes) {
            std::memcpy(out, values.data(), static_cast<size_t>(bytes));
          }};
}

}  // namespace fathom::quant
