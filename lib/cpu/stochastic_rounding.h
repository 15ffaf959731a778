// Stochastic rounding to BF16: up or down by chance, the likelier the nearer, so that many small updates add up where
// rounding to nearest would lose every one of them.
//
// The draws are a function of the seed, the step, the parameter and the element: threads, chunks and a resume change
// nothing about them. They are mixed as "lowbias32" does, with a key of two numbers (Wellons 2018, "Prospecting for
// hash functions").
#pragma once

#include <bit>
#include <cstdint>

namespace fathom::cpu {

// Of one parameter and step.
struct DrawStream {
  uint32_t first = 0, second = 0;
  int64_t origin = 0;  // the parameter's element that counts as 0, where a share of it is updated
};
DrawStream draw_stream(uint64_t seed, int64_t step, int64_t parameter, int64_t origin = 0);

inline constexpr uint32_t kFirstMix = 0x7feb352d, kSecondMix = 0x846ca68b, kHighMix = 0x9e3779b1;

// Elements of one stream whose numbers, counted from the parameter's first, have the same upper 32 bits.
constexpr uint32_t added_for(const DrawStream& stream, int64_t element) {
  return stream.second + static_cast<uint32_t>(element >> 32) * kHighMix;
}
// 32 random bits; `low` is the lower half of the element's number.
constexpr uint32_t draw(uint32_t first, uint32_t added, uint32_t low) {
  uint32_t bits = low ^ first;
  bits = (bits ^ bits >> 16) * kFirstMix;
  bits = ((bits ^ bits >> 15) + added) * kSecondMix;
  return bits ^ bits >> 16;
}
// Of elements [element, element + n) from the origin on.
void draw(const DrawStream& stream, int64_t element, int64_t n, uint32_t* bits);

// BF16 of the lower of the two neighbours in magnitude, or of the other with the odds that the value's place between
// them has. NaN stays NaN.
constexpr uint16_t round_stochastically(float value, uint32_t sixteen_bits) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (bits + sixteen_bits) >> 16);
}

}  // namespace fathom::cpu
