// How many rows of logits the loss holds at a time. No torch header.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fathom::ops {

// With a frozen head, or without gradients, nothing adds up over chunks, and on a CPU smaller ones cost no time: there
// the logits may take so much, but hold as many rows as keep products at full speed (128 in FP32, 256 in 16 bits).
inline constexpr int64_t kChunkBytes = int64_t{16} << 20;
inline constexpr int64_t kColumnBytes = 512;

// largest: loss_chunk_size; 0: all rows, always.
inline int64_t loss_chunk_rows(int64_t rows, int64_t largest, int64_t vocabulary, int64_t element_bytes,
                               bool small_chunks_are_free) {
  if (largest == 0) return rows;
  const int64_t chunk = std::min(rows, largest);
  if (!small_chunks_are_free) return chunk;
  return std::min(chunk, std::max(kChunkBytes / (vocabulary * element_bytes), kColumnBytes / element_bytes));
}

}  // namespace fathom::ops
