// How far quantization moved the numbers of a matrix.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "ops/quantized/quantized_matrix.h"

namespace fathom::checkpoint {

// Of one matrix, or of several together.
struct MatrixError {
  std::string name;  // "model.layers.0.mlp.up_proj.weight"
  int64_t values = 0;
  double signal = 0;                         // sum of squares
  double noise = 0;                          // sum of squared differences
  std::string worst_name;                    // the matrix with the row (output channel) that moved most for its size,
  int64_t worst_row = 0;                     //   which row that is,
  double worst_signal = 0, worst_noise = 0;  //   and its sums

  double rmse() const;
  double signal_to_noise() const;  // in dB; infinite where nothing moved
  double worst_signal_to_noise() const;
  void add(const MatrixError& other);
};

// stored_ND: what the matrix, on the CPU, was quantized from, of any floating type. Takes FP32 of some rows at a time.
// The noise is NaN or infinite if a number of stored_ND is.
MatrixError error_of(const std::string& name, const at::Tensor& stored_ND, const ops::QuantizedMatrix& matrix);

}  // namespace fathom::checkpoint
