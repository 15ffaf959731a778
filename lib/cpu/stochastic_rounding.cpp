// Keys of streams, and their draws in runs.
#include "cpu/stochastic_rounding.h"

#include <algorithm>

#include "base/clones.h"
#include "base/split_mix.h"

namespace fathom::cpu {
namespace {

FATHOM_CLONES void draw_run(uint32_t first, uint32_t added, uint32_t low, int64_t n, uint32_t* bits) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) bits[i] = draw(first, added, low + static_cast<uint32_t>(i));
}

}  // namespace

DrawStream draw_stream(uint64_t seed, int64_t step, int64_t parameter, int64_t origin) {
  const uint64_t of_seed = SplitMix64(seed).next();
  const uint64_t of_step = SplitMix64(of_seed ^ static_cast<uint64_t>(step)).next();
  const uint64_t key = SplitMix64(of_step ^ static_cast<uint64_t>(parameter)).next();
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), origin};
}

void draw(const DrawStream& stream, int64_t element, int64_t n, uint32_t* bits) {
  constexpr int64_t kSameHigh = int64_t{1} << 32;
  element += stream.origin;
  while (n > 0) {
    const int64_t count = std::min(n, kSameHigh - element % kSameHigh);
    draw_run(stream.first, added_for(stream, element), static_cast<uint32_t>(element), count, bits);
    element += count;
    bits += count;
    n -= count;
  }
}

}  // namespace fathom::cpu
