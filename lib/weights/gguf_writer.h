// A GGUF file, as llama.cpp reads it: keys with their values, then the tensors, each written when its turn comes.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3, little-endian.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/descriptor.h"

namespace fathom::weights {

// ggml's numbers for them.
enum class GgufType : uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ8_0 = 8, kBF16 = 30 };

// Rows of quantized types consist of blocks of so many values.
inline constexpr int64_t kGgufBlock = 32;
bool is_quantized(GgufType type);
// Of a row of so many values, which are whole blocks where the type is quantized.
int64_t gguf_row_bytes(GgufType type, int64_t columns);

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<uint8_t>, std::vector<int32_t>,
                               std::vector<float>, std::vector<bool>, std::vector<std::string>>;
using GgufKeys = std::vector<std::pair<std::string, GgufValue>>;  // in the order of the file

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;  // rows before columns, as everywhere here; the file has them the other way round
  GgufType type = GgufType::kF32;

  int64_t columns() const { return shape.back(); }
  int64_t bytes() const;  // Throws Error where they leave int64.
};

class GgufWriter {
 public:
  // Writes all that comes before the tensors' bytes. A list of values must not be empty: llama.cpp's readers refuse
  // one. Throws Error for two keys or two tensors of one name.
  GgufWriter(const std::filesystem::path& path, const GgufKeys& keys, std::vector<GgufTensor> tensors);
  // The next bytes of the tensors, which come in their order, in pieces that end where a tensor ends.
  void write(const void* data, int64_t bytes);
  // Throws Error if bytes are missing. Neither syncs the file nor renames it.
  void finish();

  // The size of such a file.
  static int64_t bytes_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors);

 private:
  void put(const void* data, int64_t bytes);

  std::filesystem::path path_;
  std::vector<GgufTensor> tensors_;
  Descriptor file_;
  size_t current_ = 0;   // the tensor whose turn it is
  int64_t written_ = 0;  // bytes of it
};

}  // namespace fathom::weights
