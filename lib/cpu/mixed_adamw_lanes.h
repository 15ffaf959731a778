// AdamW on moments in 8 bits by AVX-512.
#pragma once

#include "cpu/mixed_adamw_kernel.h"
#include "quant/dynamic_lanes.h"

#ifdef FATHOM_DYNAMIC_LANES

#include <array>

namespace fathom::cpu {

// Updates one block of codes after the other. While the processor waits for the divisions of one, it makes codes of the
// moments of the one before.
class UpdateInLanes {
 public:
  UpdateInLanes(const AdamWStep& step, const QuantizedMoments& moments);
  // A whole block: its new weights to p_out, its moments' codes and scales in place.
  void update(int64_t block, const float* g, const float* p, float* p_out);
  // To be called after the last block: its codes.
  void finish();

 private:
  // A block's moments in FP32, of which codes are still to be made.
  struct Waiting {
    alignas(64) float first[quant::kDynamicBlock], second[quant::kDynamicBlock];
    int64_t block = -1;  // -1: none
  };
  template <bool kUpdates, bool kQuantizes>
  void play(int64_t block, const float* g, const float* p, float* p_out);

  const AdamWStep step_;
  const QuantizedMoments moments_;
  std::array<Waiting, 2> waiting_;
  int newest_ = 0;
};

}  // namespace fathom::cpu

#endif
