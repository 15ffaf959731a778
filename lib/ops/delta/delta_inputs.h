// What the gated delta rule reads, and the gradients of that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "arch/architecture.h"
#include "base/rounding.h"
#include "footprint/delta.h"

namespace fathom::ops {

using footprint::kDeltaChunk;

struct DeltaInputs {
  at::Tensor mixed_TD;                 // queries, keys and values, one beside the other, behind their convolution
  at::Tensor strengths_TH, decays_TH;  // of each value head, as projections made them
  at::Tensor rates_H, biases_H;        // Role::kDecayRate and kDecayBias
};

struct DeltaGradients {
  at::Tensor mixed_TD, strengths_TH, decays_TH;
  at::Tensor rates_H, biases_H;  // undefined where they are not wanted
};

// How texts lie in the rows: of each its tokens, and what texts are in chunks.
struct DeltaTexts {
  std::vector<int64_t> lengths;
  at::Tensor positions_T;  // of each token in its document, where these lie in one row; else undefined
  int64_t chunks() const {
    int64_t sum = 0;
    for (const int64_t length : lengths) sum += divide_up(length, kDeltaChunk);
    return sum;
  }
};

}  // namespace fathom::ops
