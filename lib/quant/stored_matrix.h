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
  std::vector<float> scales;         // FP32, empty where has_byte_scales
  std::vector<uint8_t> scale_codes;  // else these
  std::vector<float> outer_scales;   // of double quantization, the last is the offset
  std::vector<std::string> tensors;  // all that belong to it, by name
};

// The matrix [rows, columns] in the place of the weight `name`; matrices: as tensors_of_matrix. Throws Error naming
// file and tensor for a tensor that is missing, of another type or shape; scales that are negative, infinite or NaN; a
// code of NaN; tables that are not NF4's; a quant_state that says other than format, rows and columns; exponents with
// which MXFP4's values are no finite numbers.
StoredMatrix find_matrix(const weights::ModelFolder& folder, const FolderFormat& format, const std::string& name,
                         int64_t rows, int64_t columns, int64_t matrices = 1);

}  // namespace fathom::quant
