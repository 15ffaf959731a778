// A quantized matrix in a model folder: found, checked, its codes in the mapped file and its scales as
// quant/layout.h has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "quant/folder_format.h"
#include "weights/folder.h"

namespace fathom::quant {

struct StoredMatrix {
  const std::byte* codes = nullptr;  // as layout_of counts them, not aligned; valid while the folder lives
  std::vector<float> scales;         // FP32, empty with double quantization
  std::vector<uint8_t> scale_codes;  // of double quantization
  std::vector<float> outer_scales;   // the same, the last is the offset
  std::vector<std::string> tensors;  // all that belong to it, by name
};

// The matrix [rows, columns] in the place of the weight `name`. Throws Error naming file and tensor for a tensor that
// is missing, of another type or shape; scales that are negative, infinite or NaN; a code of NaN; tables that are not
// NF4's; a quant_state that says other than format, rows and columns.
StoredMatrix find_matrix(const weights::ModelFolder& folder, const FolderFormat& format, const std::string& name,
                         int64_t rows, int64_t columns);

}  // namespace fathom::quant
