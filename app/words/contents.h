// What is inside a model folder, an adapter, a checkpoint or a safetensors file, for `fathom inspect`. No LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/json_value.h"
#include "weights/safetensors.h"

namespace fathom::app {

struct Contents {
  std::string kind;                                        // "model", "adapter", "checkpoint", "safetensors file"
  std::vector<std::pair<std::string, std::string>> facts;  // for people: name, text
  Json details = Json::object();                           // the same and more for programs
  std::vector<weights::TensorInfo> tensors;                // of all files
};

// Throws Error for what cannot be read or is damaged; a checkpoint's hashes are verified.
Contents read_contents(const std::filesystem::path& subject);

// Tensors whose names differ only in a layer's number, as one.
struct TensorGroup {
  std::string name;  // "model.layers.*.mlp.up_proj.weight"
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  int64_t count = 0;
  int64_t elements = 0;  // of all
  int64_t bytes = 0;     // of all
};
std::vector<TensorGroup> group_tensors(const std::vector<weights::TensorInfo>& tensors);

}  // namespace fathom::app
