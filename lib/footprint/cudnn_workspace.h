// What cuDNN's attention takes for its work on compute capability 9.0, beside its results: measured with cuDNN 9.19 on
// an H100, exact for all 12 shapes that were tried (heads of 64, 128 and 256, lengths of 77 to 8,192).
#pragma once

#include <cstdint>

namespace fathom::footprint {

// Whether it is known for attention over numbers of so many bytes, with heads of so many numbers.
constexpr bool knows_cudnn(int64_t bytes, int64_t head_size) {
  return bytes == 2 && (head_size == 64 || head_size == 128 || head_size == 256);
}
inline constexpr const char* kCudnnKnows = "computes in 16 bits, with heads of 64, 128 or 256 numbers";
inline constexpr const char* kCudnnHasNoSinks = "gives no log-sum-exps, which attention's sinks need";

inline constexpr int64_t kCudnnWorkspace = 256;  // bytes, of both passes

struct CudnnWorkspace {
  int64_t queries = 0;  // of all rows
  int64_t heads = 0, head_size = 0;
  int64_t bytes = 2;     // of a number
  bool grouped = false;  // fewer heads of keys than of queries

  // For the backward pass, beyond kCudnnWorkspace: sums of queries' gradients, and one for softmax, in FP32; gradients
  // of keys and values for every head of queries where there are fewer.
  int64_t backward_bytes() const {
    return queries * heads * (4 * (head_size + 1) + (grouped ? 2 * head_size * bytes : 0));
  }
};

}  // namespace fathom::footprint
