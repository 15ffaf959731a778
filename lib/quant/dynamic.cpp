// Dynamic codes: the tables as bitsandbytes makes them, and the nearest code by the line of a value's decade.
#include "quant/dynamic.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quant/dynamic_lanes.h"
#include "quant/magnitude.h"

namespace fathom::quant {
namespace {

// The place of the lines of a magnitude's power of two.
constexpr size_t place_of(float magnitude) { return std::bit_cast<uint32_t>(magnitude) >> 23 & 31; }

// Number i of `steps` + 1 from 0.1 to 1 at equal distances, from the nearer end; rounded once, as torch's linspace does
// with a fused multiplication.
constexpr float between_tenth_and_one(int i, int steps) {
  constexpr float kFirst = 0.1f, kLast = 1;
  const double step = (kLast - kFirst) / static_cast<float>(steps);
  return static_cast<float>(i < (steps + 1) / 2 ? kFirst + step * i : kLast - step * (steps - i));
}

// An exponent in unary and in the bits left a linear fraction: means of intervals between 0.1 and 1, times 10^(e - 6),
// for e from 0 to 6; of 2^e intervals and with both signs, or of twice as many; and 0 and 1.
constexpr std::array<float, 256> dynamic_values(bool with_signs) {
  constexpr float kPowersOfTen[kDynamicDecades] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  std::array<float, 256> values{};
  size_t count = 0;
  for (int exponent = 0; exponent < kDynamicDecades; ++exponent) {
    const int steps = (with_signs ? 1 : 2) << exponent;
    for (int i = 0; i < steps; ++i) {
      const float mean = (between_tenth_and_one(i, steps) + between_tenth_and_one(i + 1, steps)) / 2;
      values[count++] = kPowersOfTen[exponent] * mean;
      if (with_signs) values[count++] = -(kPowersOfTen[exponent] * mean);
    }
  }
  values[count++] = 0;
  values[count++] = 1;
  std::sort(values.begin(), values.end());
  return values;
}

constexpr DynamicLine lowest_line(double magnitude, bool with_signs) {
  DynamicLine lowest = line_of_decade(0, with_signs);
  for (int exponent = 1; exponent < kDynamicDecades; ++exponent) {
    const DynamicLine line = line_of_decade(exponent, with_signs);
    if (line.at(magnitude) < lowest.at(magnitude)) lowest = line;
  }
  return lowest;
}

constexpr void set_line(DynamicMap::Lines& lines, size_t place, const DynamicLine& line) {
  lines.slopes[place] = static_cast<float>(line.slope);
  lines.offsets[place] = static_cast<float>(line.offset);
}

constexpr DynamicMap make_map(bool with_signs) {
  DynamicMap map{};
  map.with_signs = with_signs;
  map.values = dynamic_values(with_signs);
  map.zero = static_cast<int>(std::find(map.values.begin(), map.values.end(), 0.0f) - map.values.begin());
  for (size_t i = 0; i + 1 < map.values.size(); ++i) map.midpoints[i] = (map.values[i] + map.values[i + 1]) / 2;
  map.midpoints.back() = std::numeric_limits<float>::infinity();
  for (float power = 1; power >= kSmallestDynamic; power /= 2) {
    set_line(map.first_lines, place_of(power), lowest_line(power, with_signs));
    set_line(map.last_lines, place_of(power), lowest_line(2 * power, with_signs));
  }
  return map;
}
constexpr DynamicMap kSigned = make_map(true), kUnsigned = make_map(false);

uint8_t nearest(const DynamicMap& map, float fraction) {
  const bool negative = map.with_signs && fraction < 0;
  const float magnitude = std::max(negative ? -fraction : fraction, kSmallestDynamic);
  const size_t place = place_of(magnitude);
  const auto at = [&](const DynamicMap::Lines& lines) {
    return lines.slopes[place] * magnitude + lines.offsets[place];
  };
  const float line = std::min(at(map.first_lines), at(map.last_lines));
  const int last = dynamic_ranks(map) - 1, rank = line < static_cast<float>(last) ? static_cast<int>(line) : last;
  const float border = map.midpoints[map.zero + rank];
  // Halfway between two codes the lower one is taken: of negative values that of the larger magnitude.
  if (negative) return static_cast<uint8_t>(std::max(0, map.zero - rank - (magnitude >= border ? 1 : 0)));
  return static_cast<uint8_t>(map.zero + rank + (magnitude > border ? 1 : 0));
}

#ifdef FATHOM_DYNAMIC_LANES
// Values [0, n) but for the last ones that do not fill a vector; they return how many they took.
template <bool kWithSigns>
FATHOM_DYNAMIC_LANES int64_t quantize_lanes(const DynamicMap& map, const float* values, float reciprocal, int64_t n,
                                            uint8_t* codes) {
  const __m512 factor = _mm512_set1_ps(reciprocal);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    quantize_sixteen<kWithSigns>(map, _mm512_mul_ps(_mm512_loadu_ps(values + i), factor), codes + i);
  }
  return i;
}

FATHOM_DYNAMIC_LANES int64_t dequantize_lanes(const DynamicMap& map, const uint8_t* codes, float scale, int64_t n,
                                              float* values) {
  const __m512 factor = _mm512_set1_ps(scale);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) _mm512_storeu_ps(values + i, _mm512_mul_ps(sixteen_values(map, codes + i), factor));
  return i;
}
#endif

}  // namespace

const DynamicMap kSignedDynamic = kSigned;
const DynamicMap kUnsignedDynamic = kUnsigned;

float quantize_dynamic(const DynamicMap& map, const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n), reciprocal = largest > 0 ? 1 / largest : 0;
  int64_t done = 0;
#ifdef FATHOM_DYNAMIC_LANES
  if (has_dynamic_lanes()) {
    done = map.with_signs ? quantize_lanes<true>(map, values, reciprocal, n, codes)
                          : quantize_lanes<false>(map, values, reciprocal, n, codes);
  }
#endif
  for (; done < n; ++done) codes[done] = nearest(map, values[done] * reciprocal);
  return largest;
}

void dequantize_dynamic(const DynamicMap& map, const uint8_t* codes, float scale, int64_t n, float* values) {
  int64_t done = 0;
#ifdef FATHOM_DYNAMIC_LANES
  if (has_dynamic_lanes()) done = dequantize_lanes(map, codes, scale, n, values);
#endif
  for (; done < n; ++done) values[done] = map.values[codes[done]] * scale;
}

}  // namespace fathom::quant
