// By how much each pair of a head turns from one position to the next.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/rope.h"

namespace fathom::arch {

// Radians for each of the rotary.width / 2 pairs, in FP32. beyond_original: of a pass that reaches further than
// LongRoPE's original positions; other kinds know no difference.
std::vector<float> rotary_frequencies(const Rotary& rotary, bool beyond_original = false);

// The positions from which on the frequencies are others; 0: they are the same for all.
int64_t original_positions(const Rotary& rotary);

// What queries are multiplied by at a position.
double query_scale(const Rotary& rotary, int64_t position);

}  // namespace fathom::arch
