// Where tensors lie in a safetensors file that is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "weights/safetensors.h"

namespace fathom::weights {

struct Slot {
  const TensorSource* source;
  int64_t bytes;
};

// In the order of the file. path: for errors. Throws Error for names that cannot stand in one.
std::vector<Slot> lay_out(const std::filesystem::path& path, const std::vector<TensorSource>& tensors);
// What the file begins with: the header with its length in front.
std::string file_start(const std::filesystem::path& path, const std::vector<Slot>& slots);
// All that is behind it.
int64_t data_bytes(const std::filesystem::path& path, const std::vector<Slot>& slots);

// Throws the error of errno: "path: writing failed: ...".
[[noreturn]] void fail_to_write(const std::filesystem::path& path, const char* what);

}  // namespace fathom::weights
