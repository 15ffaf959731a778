// A block at a time: widened into buffers that stay in the first cache, updated, rounded back.
#include "cpu/mixed_adamw_kernel.h"

#include <algorithm>
#include <cmath>

#include "cpu/mixed_adamw_lanes.h"
#include "cpu/row_blocks.h"
#include "quant/dynamic.h"

namespace fathom::cpu {
namespace {

constexpr int64_t kElements = quant::kDynamicBlock;

// The arithmetic of optimizer_kernels.cpp: moments in place, the new weights to p_out.
FATHOM_CLONES void update_block(const AdamWStep& step, const float* g, const float* p, float* m, float* v, float* p_out,
                                int64_t n) {
  const auto factor = static_cast<float>(step.factor), beta1 = static_cast<float>(step.beta1);
  const auto beta2 = static_cast<float>(step.beta2), epsilon = static_cast<float>(step.epsilon);
  const auto keep = static_cast<float>(step.keep), rate = static_cast<float>(step.rate);
  const auto root_second = static_cast<float>(step.root_second);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float gradient = g[i] * factor;
    const float mean = m[i] + (1 - beta1) * (gradient - m[i]);
    const float square = beta2 * v[i] + (1 - beta2) * gradient * gradient;
    p_out[i] = keep * p[i] - rate * mean / (std::sqrt(square) / root_second + epsilon);
    m[i] = mean;
    v[i] = square;
  }
}

// The weights take the upper half of a draw, the second moment the lower one.
FATHOM_CLONES void round_upper(const float* values, const uint32_t* bits, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = round_stochastically(values[i], bits[i] >> 16);
}
FATHOM_CLONES void round_lower(const float* values, const uint32_t* bits, uint16_t* out, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = round_stochastically(values[i], bits[i] & 0xffffu);
}

uint16_t* narrow(Rows rows, int64_t first) { return reinterpret_cast<uint16_t*>(at(rows, first)); }

// Elements [first, first + n) of a parameter, at most a block.
struct Block {
  const StoredWeights& weights;
  Rows gradient;
  int64_t first, n;
};

// compute(g, p, p_out): the new weights, in FP32. draws: null where nothing is rounded stochastically.
template <typename Compute>
void update_weights(const Block& block, const uint32_t* draws, const Compute& compute) {
  float gradients[kElements], before[kElements], after[kElements];
  const auto& [weights, gradient, first, n] = block;
  float* masters = weights.masters == nullptr ? nullptr : weights.masters + first;
  const bool from_masters = masters != nullptr && !weights.masters_unset;
  const float* p = from_masters ? masters : read(weights.stored, first, n, before);
  float* out = masters != nullptr ? masters : target(weights.stored, first, after);
  compute(read(gradient, first, n, gradients), p, out);
  if (weights.stochastic) {
    round_upper(out, draws, narrow(weights.stored, first), n);
  } else {
    write(out, weights.stored, first, n);
  }
}

// Takes the block's moments in FP32 and changes them.
void update(const AdamWStep& step, const Block& block, float* m, float* v, const uint32_t* draws) {
  update_weights(block, draws,
                 [&](const float* g, const float* p, float* p_out) { update_block(step, g, p, m, v, p_out, block.n); });
}

// Calls visit for blocks of [first, last).
template <typename Visit>
void each_block(const StoredWeights& weights, Rows gradient, int64_t first, int64_t last, const Visit& visit) {
  for (int64_t i = first; i < last; i += kElements) {
    visit(Block{weights, gradient, i, std::min(kElements, last - i)});
  }
}

}  // namespace

void adamw(const AdamWStep& step, const StoredWeights& weights, Rows gradient, const StoredMoments& moments,
           const DrawStream& draws, int64_t first, int64_t last) {
  const bool stochastic_second = moments.second.type == RowType::kBF16;
  each_block(weights, gradient, first, last, [&](const Block& block) {
    float first_buffer[kElements], second_buffer[kElements];
    uint32_t bits[kElements];
    // In place where they are FP32.
    auto* m = const_cast<float*>(read(moments.first, block.first, block.n, first_buffer));
    auto* v = const_cast<float*>(read(moments.second, block.first, block.n, second_buffer));
    if (weights.stochastic || stochastic_second) draw(draws, block.first, block.n, bits);
    update(step, block, m, v, bits);
    write(m, moments.first, block.first, block.n);
    if (stochastic_second) round_lower(v, bits, narrow(moments.second, block.first), block.n);
  });
}

void adamw(const AdamWStep& step, const StoredWeights& weights, Rows gradient, const QuantizedMoments& moments,
           const DrawStream& draws, int64_t first, int64_t last) {
  uint32_t bits[kElements];
#ifdef FATHOM_DYNAMIC_LANES
  if (quant::has_dynamic_lanes()) {
    const int64_t whole_end = last - (last - first) % kElements;
    UpdateInLanes lanes(step, moments);
    each_block(weights, gradient, first, whole_end, [&](const Block& block) {
      if (weights.stochastic) draw(draws, block.first, block.n, bits);
      update_weights(block, bits, [&](const float* g, const float* p, float* p_out) {
        lanes.update(block.first / kElements, g, p, p_out);
      });
    });
    lanes.finish();
    first = whole_end;
  }
#endif
  each_block(weights, gradient, first, last, [&](const Block& block) {
    float m[kElements], v[kElements];
    uint8_t* const first_codes = moments.first_codes + block.first;
    uint8_t* const second_codes = moments.second_codes + block.first;
    float& first_scale = moments.first_scales[block.first / kElements];
    float& second_scale = moments.second_scales[block.first / kElements];
    quant::dequantize_dynamic(quant::kSignedDynamic, first_codes, first_scale, block.n, m);
    quant::dequantize_dynamic(quant::kUnsignedDynamic, second_codes, second_scale, block.n, v);
    if (weights.stochastic) draw(draws, block.first, block.n, bits);
    update(step, block, m, v, bits);
    first_scale = quant::quantize_dynamic(quant::kSignedDynamic, m, block.n, first_codes);
    second_scale = quant::quantize_dynamic(quant::kUnsignedDynamic, v, block.n, second_codes);
  });
}

}  // namespace fathom::cpu
