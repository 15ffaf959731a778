// How a model's rotary positions are stretched to longer texts than it was trained on.
#pragma once

#include <cstdint>

namespace fathom::arch {

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

}  // namespace fathom::arch
