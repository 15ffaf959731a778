// The axes of the memory matrix, and the model that a row of their levels means.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/architecture.h"
#include "base/split_mix.h"

namespace fathom::plan::testing {

enum AxisIndex : size_t {
  kMethod,
  kPrecision,
  kCheckpointing,
  kAttention,
  kFamily,
  kHeads,
  kTied,
  kLayers,
  kRows,
  kLength,
  kAccumulation,
  kEvaluation,
  kThreads,
  kClipping,
  kOptimizer,
  kLossChunk,
  kPacking,
  kWindow,
  kMasters,
  kBase,
  kQat,
  kSaved,
};

using Levels = std::vector<size_t>;

int64_t number_of(const Levels& levels, AxisIndex axis);  // that the level is written as
inline bool is_on(const Levels& levels, AxisIndex axis) { return levels[axis] == 1; }

// As T5 1.0: no gate, one matrix for embedding and head with a scale; as FLAN-T5: gated, with dropout of its own.
constexpr size_t kT5 = 5, kFlanT5 = 6;
constexpr size_t kWithExperts = 7;
constexpr size_t kGemma3 = 8, kPhi3 = 9, kGranite = 10, kGemma2 = 11, kCohere2 = 12, kGpt2 = 13, kSeedOss = 14,
                 kArcee = 15, kHunyuan = 16, kLfm2 = 17, kQwen35 = 18, kGptOss = 19, kGemma4 = 20, kGlmMoe = 21,
                 kQwen2Moe = 22, kLatent = 23;
inline bool routes(size_t level) {
  return level == kWithExperts || level == kGptOss || level == kGlmMoe || level == kQwen2Moe;
}
inline bool encodes(const Levels& levels) { return levels[kFamily] == kT5 || levels[kFamily] == kFlanT5; }

constexpr size_t kInt4Qat = 2;  // and those above it

arch::Architecture architecture_of(const Levels& levels, SplitMix64& random);

}  // namespace fathom::plan::testing
