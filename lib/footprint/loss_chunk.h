// How many rows of logits the loss holds at a time.
#pragma once

#include <algorithm>
#include <cstdint>

namespace fathom::footprint {

// With a frozen head, or without gradients, nothing adds up over chunks, and smaller ones cost no time: there the
// logits may take so much, but hold as many rows as keep products at full speed. On a CPU these are 128 in FP32 and 256
// in 16 bits; a GPU wants enough work in each kernel to outlast its launch.
inline constexpr int64_t kChunkBytes = int64_t{16} << 20;
inline constexpr int64_t kColumnBytes = 512;
inline constexpr int64_t kCudaChunkBytes = int64_t{64} << 20;
inline constexpr int64_t kCudaRows = 256;

// What the backward pass of a gated feed-forward part takes beside what is kept: the gradients of its output, gate and
// up. Logits may take as much of a GPU without being felt in the peak, and larger chunks read the head fewer times.
inline int64_t bytes_beside_gate(int64_t tokens, int64_t width, int64_t element_bytes) {
  return 3 * tokens * width * element_bytes;
}

// Rows of a trained head's gradient that a CPU multiplies at a time in 16 bits, before they widen the sum: enough for
// full speed, few beside the logits.
inline int64_t head_gradient_rows(int64_t vocabulary, int64_t width, int64_t element_bytes) {
  constexpr int64_t kTileRows = 64;
  return std::min(vocabulary, std::max(kTileRows, kChunkBytes / (width * element_bytes) / kTileRows * kTileRows));
}

// largest: loss_chunk_size; 0: all rows, always. spare_bytes: what logits may take on a GPU at least.
inline int64_t loss_chunk_rows(int64_t rows, int64_t largest, int64_t vocabulary, int64_t element_bytes,
                               bool head_is_frozen, bool cuda, int64_t spare_bytes = 0) {
  if (largest == 0) return rows;
  const int64_t chunk = std::min(rows, largest);
  if (!head_is_frozen) return chunk;
  const int64_t bytes = cuda ? std::max(kCudaChunkBytes, spare_bytes) : kChunkBytes;
  const int64_t fast_rows = cuda ? kCudaRows : kColumnBytes / element_bytes;
  return std::min(chunk, std::max(bytes / (vocabulary * element_bytes), fast_rows));
}

}  // namespace fathom::footprint
