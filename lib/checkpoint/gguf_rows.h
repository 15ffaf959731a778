// The rows of stored tensors as those of a GGUF file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "weights/gguf_writer.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

// So many rows of one of the sources, which is read as a matrix whatever its shape.
struct RowSlice {
  size_t source = 0;
  int64_t first = 0, count = 0;
};

struct GgufRows {
  std::vector<weights::TensorSource> sources;
  std::vector<RowSlice> slices;  // in the order of the file, each source's one behind the other
  int64_t heads = 0;             // above 0: rows change places as gguf::row_in_pairs says; of one source, all of it
  bool transposed = false;       // the columns of the sources are the rows
  double scale = 1;              // of all numbers
  double offset = 0;             // then added to them

  // All rows of one tensor.
  static GgufRows whole(weights::TensorSource source);
  // Numbers that no file has.
  static GgufRows of(const std::vector<float>& values);
};

// Reads the sources, whose types are wide floating ones, one at a time, and writes their rows in the tensor's type,
// rounded from FP32, in blocks of rows. Throws Error, beginning with `where`, for numbers that are not finite in that
// type.
void write_rows(const GgufRows& rows, const weights::GgufTensor& tensor, const std::string& where,
                weights::GgufWriter& writer);

}  // namespace fathom::checkpoint
