// How fast each pair of a head turns with its position, also where a model was stretched to longer texts. No torch
// header.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace fathom::ops {

// Llama 3.1's stretch (rope_type "llama3"; Llama team 2024, arXiv 2407.21783, and transformers'
// _compute_llama3_parameters). With w = 2 pi / f the wavelength of a frequency f, in positions, and
// s = (original_positions / w - low) / (high - low):
//   f / factor                     where w > original_positions / low: slower than the model was trained to see
//   f                              where w < original_positions / high
//   (1 - s) f / factor + s f       between
struct ScaledRope {
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;
  int64_t original_positions = 8192;
  bool operator==(const ScaledRope&) const = default;
};

// theta^(-2i/E) for i below E/2, stretched where `scaling` is set; each step rounded to FP32 as transformers does it.
std::vector<float> rotary_frequencies(double theta, int64_t head_size, const std::optional<ScaledRope>& scaling);

}  // namespace fathom::ops
