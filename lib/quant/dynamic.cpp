// Dynamic codes: the tables as bitsandbytes makes them, and the nearest code by the upper bits of a value.
#include "quant/dynamic.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "quant/magnitude.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fathom::quant {
namespace {

constexpr int kExponents = 7;                      // powers of ten: 1e-6 to 1
constexpr int kDroppedBits = 16;                   // of FP32's fraction: 7 are left, 128 buckets for a power of two
constexpr uint32_t kFirstBits = (127 - 23) << 23;  // of 2^-23
constexpr uint32_t kSignBit = 0x80000000;

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
  constexpr float kPowersOfTen[kExponents] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1};
  std::array<float, 256> values{};
  size_t count = 0;
  for (int exponent = 0; exponent < kExponents; ++exponent) {
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

constexpr float bucket_start(int bucket) {
  return bucket == 0 ? 0 : std::bit_cast<float>(kFirstBits + (static_cast<uint32_t>(bucket) << kDroppedBits));
}

constexpr DynamicMap make_map(bool with_signs) {
  DynamicMap map{};
  map.values = dynamic_values(with_signs);
  for (size_t i = 0; i + 1 < map.values.size(); ++i) map.midpoints[i] = (map.values[i] + map.values[i + 1]) / 2;
  map.midpoints.back() = std::numeric_limits<float>::infinity();
  uint8_t positive = 0, negative = 255;  // codes, which rise and fall with the buckets
  for (int bucket = 0; bucket < kDynamicBuckets; ++bucket) {
    // A positive value is not below the bucket's start, a negative one above the negated start of the next.
    while (map.midpoints[positive] < bucket_start(bucket)) ++positive;
    while (negative > 0 && map.midpoints[negative - 1] > -bucket_start(bucket + 1)) --negative;
    map.lowest_codes[bucket] = positive;
    map.lowest_codes[kDynamicBuckets + bucket] = negative;
  }
  return map;
}
constexpr DynamicMap kSigned = make_map(true), kUnsigned = make_map(false);

uint8_t nearest(const DynamicMap& map, float fraction) {
  const auto bits = std::bit_cast<uint32_t>(fraction);
  const int32_t bucket = (static_cast<int32_t>(bits & ~kSignBit) - static_cast<int32_t>(kFirstBits)) >> kDroppedBits;
  const int32_t within = std::clamp(bucket, 0, kDynamicBuckets - 1);
  const uint8_t lowest = map.lowest_codes[within + ((bits & kSignBit) != 0 ? kDynamicBuckets : 0)];
  return static_cast<uint8_t>(lowest + (map.midpoints[lowest] < fraction ? 1 : 0));
}

#if defined(__x86_64__)
// The same for vectors, values [0, n) but for the last ones that do not fill one; they return how many they wrote.
constexpr __mmask16 kAll = 0xffff;  // GCC takes what the forms without a mask leave undefined for a mistake

__attribute__((target("avx512f"))) int64_t quantize_vectors(const DynamicMap& map, const float* values,
                                                            float reciprocal, int64_t n, uint8_t* codes) {
  const __m512i none = _mm512_setzero_si512(), first = _mm512_set1_epi32(kFirstBits);
  const __m512i last = _mm512_set1_epi32(kDynamicBuckets - 1), negative = _mm512_set1_epi32(kDynamicBuckets);
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m512 fractions = _mm512_mul_ps(_mm512_loadu_ps(values + i), _mm512_set1_ps(reciprocal));
    const __m512i bits = _mm512_castps_si512(fractions);
    const __m512i magnitudes = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff));
    __m512i buckets = _mm512_maskz_srai_epi32(kAll, _mm512_sub_epi32(magnitudes, first), kDroppedBits);
    buckets = _mm512_maskz_min_epi32(kAll, _mm512_maskz_max_epi32(kAll, buckets, none), last);
    buckets = _mm512_mask_add_epi32(buckets, _mm512_cmplt_epi32_mask(bits, none), buckets, negative);
    __m512i lowest = _mm512_mask_i32gather_epi32(none, kAll, buckets, map.lowest_codes.data(), 1);
    lowest = _mm512_and_si512(lowest, _mm512_set1_epi32(0xff));
    const __m512 borders = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), kAll, lowest, map.midpoints.data(), 4);
    const __mmask16 beyond = _mm512_cmp_ps_mask(borders, fractions, _CMP_LT_OQ);
    const __m512i nearest = _mm512_mask_add_epi32(lowest, beyond, lowest, _mm512_set1_epi32(1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes + i), _mm512_maskz_cvtepi32_epi8(kAll, nearest));
  }
  return i;
}

__attribute__((target("avx512f"))) int64_t dequantize_vectors(const DynamicMap& map, const uint8_t* codes, float scale,
                                                              int64_t n, float* values) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + i));
    const __m512i places = _mm512_maskz_cvtepu8_epi32(kAll, bytes);
    const __m512 found = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), kAll, places, map.values.data(), 4);
    _mm512_storeu_ps(values + i, _mm512_mul_ps(found, _mm512_set1_ps(scale)));
  }
  return i;
}
#endif

}  // namespace

const DynamicMap kSignedDynamic = kSigned;
const DynamicMap kUnsignedDynamic = kUnsigned;

float quantize_dynamic(const DynamicMap& map, const float* values, int64_t n, uint8_t* codes) {
  const float largest = largest_magnitude(values, n), reciprocal = largest > 0 ? 1 / largest : 0;
  int64_t done = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) done = quantize_vectors(map, values, reciprocal, n, codes);
#endif
  for (; done < n; ++done) codes[done] = nearest(map, values[done] * reciprocal);
  return largest;
}

void dequantize_dynamic(const DynamicMap& map, const uint8_t* codes, float scale, int64_t n, float* values) {
  int64_t done = 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) done = dequantize_vectors(map, codes, scale, n, values);
#endif
  for (; done < n; ++done) values[done] = map.values[codes[done]] * scale;
}

}  // namespace fathom::quant
