// How fast each pair of a head turns with its position, also where a model was stretched to longer texts.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/rope.h"

namespace fathom::arch {

// theta^(-2i/E) for i below E/2, stretched where `scaling` is set; each step rounded to FP32 as transformers does it.
std::vector<float> rotary_frequencies(double theta, int64_t head_size, const std::optional<ScaledRope>& scaling);

}  // namespace fathom::arch
