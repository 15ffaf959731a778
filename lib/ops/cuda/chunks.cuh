// Many tensors in one launch: a grid of equal chunks, each of one tensor, and a record of each tensor among the
// kernel's parameters.
#pragma once

#include "ops/cuda/kernels.cuh"

namespace fathom::ops::cuda {

// What a kernel takes as parameters from CUDA 12.1 and compute capability 7.0 on, which all are built for.
constexpr size_t kParameterBytes = 32764;

// So many elements, from `first` on, of the tensor at this place among the records.
struct Chunk {
  int place, count;
  int64_t first;
};

// The one that blockIdx counts. Records know their `elements`, and as `chunks_end` the chunks of the grid up to their
// last.
template <int kChunk, typename Record>
__device__ Chunk chunk_of(const Record* records, int count) {
  int place = 0, last = count - 1;
  while (place < last) {
    const int middle = (place + last) / 2;
    if (blockIdx.x < records[middle].chunks_end) {
      last = middle;
    } else {
      place = middle + 1;
    }
  }
  const unsigned before = place == 0 ? 0 : records[place - 1].chunks_end;
  const int64_t first = int64_t{blockIdx.x - before} * kChunk, left = records[place].elements - first;
  return {place, left < kChunk ? static_cast<int>(left) : kChunk, first};
}

}  // namespace fathom::ops::cuda
