// The tensors that stand in a model folder in the place of one quantized weight: their names, types, shapes and bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "quant/folder_format.h"
#include "weights/safetensors.h"

namespace fathom::quant {

// Rows that share the scales of FP8 in blocks in a folder; in memory each has them.
inline constexpr int64_t kFp8BlockRows = 128;

struct StoredTensor {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
};

// The tensors in the place of the weight `name` ("model.layers.0.mlp.up_proj.weight") [rows, columns], codes first.
// matrices: of experts, which lie one below the other in it. Throws Error where a size leaves int64 or a group does not
// fit.
std::vector<StoredTensor> tensors_of_matrix(const FolderFormat& format, const std::string& name, int64_t rows,
                                            int64_t columns, int64_t matrices = 1);

// A quantized matrix in host memory, as quant/layout.h has it.
struct MatrixBytes {
  Scheme scheme = {};
  int64_t rows = 0, columns = 0;
  const std::byte* codes = nullptr;
  const std::byte* scales = nullptr;    // FP32; a byte each where has_byte_scales
  const float* outer_scales = nullptr;  // of double quantization, the last is the offset
  int64_t matrices = 1;                 // of experts, one below the other
};

// The same tensors in the format_of(scheme), in the same order, ready for weights::write_safetensors. What the matrix
// points to must outlive them. dtype: of the weight before; bitsandbytes dequantizes into it.
std::vector<weights::TensorSource> sources_of_matrix(const std::string& name, const MatrixBytes& matrix, DType dtype);

}  // namespace fathom::quant
