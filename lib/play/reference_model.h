// Small models that stand for others' layers where a machine is measured.
#pragma once

#include "arch/architecture.h"
#include "data/batch.h"

namespace fathom::play {

// Of a Llama whose embedding and head are not tied.
struct ReferenceShape {
  int64_t width = 0, heads = 0, key_value_heads = 0, head_dim = 0, feed_forward = 0, vocabulary = 0;
  int64_t layers = 2;
  DType dtype = DType::kF32;
};
arch::Architecture reference_architecture(const ReferenceShape& shape);

// Rows of different ids, all of which count.
data::Batch reference_batch(int64_t rows, int64_t length, int64_t vocabulary);

}  // namespace fathom::play
