// Where formulas come from, for those that several parts of the account share.
#pragma once

#include <cstdint>

namespace fathom::plan {

inline constexpr const char* kGradient = "one gradient for each trained number, in its type";
inline constexpr const char* kBackward = "a gradient on its way back; it has the shape of its value";
inline constexpr int64_t kStoredAdapterBytes = 4;  // an element of an adapter: FP32 whatever the base

}  // namespace fathom::plan
