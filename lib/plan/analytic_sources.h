// Where formulas come from, for those that several parts of the account share.
#pragma once

#include <cstdint>

namespace fathom::plan {

inline constexpr const char* kGradient = "one gradient for each trained number, in its type";
inline constexpr const char* kBackward = "a gradient on its way back; it has the shape of its value";
inline constexpr const char* kFlash =
    "flash attention keeps queries, keys, values, output and logsumexp (Dao 2023, arXiv 2307.08691)";
inline constexpr const char* kEfficient =
    "memory-efficient attention wants keys and values for every query head, which are not kept (Rabe and Staats 2021, "
    "arXiv 2112.05682)";
inline constexpr const char* kEfficientBackward =
    "tiles of the gradient of queries in FP32; kernel_backward.h of LibTorch 2.11";
inline constexpr const char* kRotaryTables = "cosines and sines for each position (Su et al. 2021, arXiv 2104.09864)";
inline constexpr int64_t kStoredAdapterBytes = 4;  // an element of an adapter: FP32 whatever the base

inline constexpr int64_t kTile =
    64;  // of the memory-efficient kernel's backward pass, columns and (up to a head of 64) rows

}  // namespace fathom::plan
