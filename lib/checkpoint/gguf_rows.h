// The rows of a stored tensor as those of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/gguf_writer.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

struct GgufRows {
  weights::TensorSource source;
  int64_t heads = 0;  // above 0: rows change places as gguf::row_in_pairs says
  double scale = 1;   // of all numbers

  // Numbers that no file has.
  static GgufRows of(const std::vector<float>& values);
};

// Reads the source, whose type is a wide floating one, and writes it in the tensor's type, rounded from FP32, in blocks
// of rows. Throws Error, beginning with `where`, for numbers that are not finite in that type.
void write_rows(const GgufRows& rows, const weights::GgufTensor& tensor, const std::string& where,
                weights::GgufWriter& writer);

}  // namespace fathom::checkpoint
