// How a layer turns queries and keys by their positions, and how that is stretched to longer texts than the model was
// trained on.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

namespace fathom::arch {

// Every frequency divided by the factor (Chen et al. 2023, arXiv 2306.15595).
struct LinearRope {
  double factor = 1;
  bool operator==(const LinearRope&) const = default;
};

// A larger theta, theta alpha^(width / (width - 2)), by which the slowest pair turns alpha times slower (the NTK-aware
// stretch, of Hunyuan).
struct NtkRope {
  double alpha = 1;
  bool operator==(const NtkRope&) const = default;
};

// Llama 3.1's stretch (rope_type "llama3"; Llama team 2024, arXiv 2407.21783, and transformers'
// _compute_llama3_parameters). With w = 2 pi / f the wavelength of a frequency f, in positions, and
// s = (original_positions / w - low) / (high - low):
//   f / factor                     where w > original_positions / low: slower than the model was trained to see
//   f                              where w < original_positions / high
//   (1 - s) f / factor + s f       between
struct Llama3Rope {
  double factor = 1;
  double low_frequency_factor = 1, high_frequency_factor = 4;
  int64_t original_positions = 8192;
  bool operator==(const Llama3Rope&) const = default;
};

// YaRN (Peng et al. 2023, arXiv 2309.00071, and transformers' _compute_yarn_parameters): f / factor for pairs that turn
// less often than slow_turns within the original positions, f for those that turn more often than fast_turns, and
// between them a blend that is linear in the number of the pair.
struct YarnRope {
  double factor = 1;
  double fast_turns = 32, slow_turns = 1;
  int64_t original_positions = 8192;
  bool whole_pairs = true;  // the borders of the blend are rounded to whole pairs, outwards
  bool operator==(const YarnRope&) const = default;
};

// LongRoPE (Ding et al. 2024, arXiv 2402.13753): each pair's frequency is divided by a factor of its own, which is
// another where a pass reaches beyond the original positions.
struct LongRope {
  std::vector<double> short_factors = {}, long_factors = {};
  int64_t original_positions = 4096;
  bool operator==(const LongRope&) const = default;
};

using RopeScaling = std::variant<std::monostate, LinearRope, NtkRope, Llama3Rope, YarnRope, LongRope>;

// Rotary positions (Su et al. 2021, arXiv 2104.09864).
struct Rotary {
  int64_t width = 0;         // numbers at the front of each head that are turned, in pairs
  int64_t still_pairs = 0;   // of these pairs, the slowest, which stand still: "proportional" positions, of Gemma 4
  int64_t still_front = 0;   // of these numbers, the first, which stand still, as if the others were all: of DeepSeek
  bool interleaved = false;  // pair i is (2i, 2i + 1), else (i, i + width / 2)
  double theta = 10000;
  RopeScaling scaling = std::monostate();
  double magnitude = 1;  // what turned numbers are multiplied by: the attention factor of YaRN and LongRoPE
  // What queries are multiplied by besides, at a position p: scale (1 + growth log(1 + floor(p / growth_positions))),
  // the second factor of which is Llama 4's. 1 / sqrt(E) is attention's own.
  double query_scale = 1;
  double query_growth = 0;
  int64_t query_growth_positions = 1;

  bool scales_queries() const { return query_scale != 1 || query_growth != 0; }
  bool operator==(const Rotary&) const = default;
};

}  // namespace fathom::arch
