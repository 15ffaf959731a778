// AdamW's update on the CPU where weights, gradient and moments are each stored in their own way: one pass over memory,
// clipping included.
#pragma once

#include "cpu/optimizer_kernels.h"
#include "cpu/stochastic_rounding.h"

namespace fathom::cpu {

// The weights of a parameter, FP32 or BF16.
struct StoredWeights {
  Rows stored;
  float* masters = nullptr;    // the weights themselves, in FP32: BF16 `stored` are then their rounding
  bool masters_unset = false;  // in the first step, which takes them from `stored`
  bool stochastic = false;     // BF16 without masters: rounded stochastically, else to nearest
};

// FP32 or BF16, each on its own. A second moment in BF16 is rounded stochastically: by beta2 = 0.999 it changes by less
// than half of its last digit, which rounding to nearest would lose.
struct StoredMoments {
  Rows first, second;
};

// Codes of quant/dynamic.h, signed for the first moment, and a scale for each of their blocks.
struct QuantizedMoments {
  uint8_t* first_codes = nullptr;
  float* first_scales = nullptr;
  uint8_t* second_codes = nullptr;
  float* second_scales = nullptr;
};

// The update of optimizer_kernels.h for elements [first, last), computed in FP32; what is stored in fewer bits is
// rounded after it.
void adamw(const AdamWStep& step, const StoredWeights& weights, Rows gradient, const StoredMoments& moments,
           const DrawStream& draws, int64_t first, int64_t last);
// first: where a block of codes begins. last: where one ends, or the parameter.
void adamw(const AdamWStep& step, const StoredWeights& weights, Rows gradient, const QuantizedMoments& moments,
           const DrawStream& draws, int64_t first, int64_t last);

}  // namespace fathom::cpu
