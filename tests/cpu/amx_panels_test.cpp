// Rows of sums as they leave AMX's tiles, on any processor with AVX512_BF16.
#include "cpu/amx_panels.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

namespace fathom::cpu::amx::amx_panels_test {
namespace {

#ifdef FATHOM_AMX

float widened(uint16_t number) {
  const uint32_t bits = uint32_t{number} << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Of columns in order those of tile 0 and tile 1 side by side. Halves and whole numbers, which BF16 holds exactly.
TEST(AmxPanels, AreRoundedOrAddedInTheOrderOfColumns) {
  if (!__builtin_cpu_supports("avx512bf16")) GTEST_SKIP() << "this processor has no AVX512_BF16";
  constexpr int64_t kRows = 3, kStride = 40, kTile = 16;
  std::array<float, kRows * kSide> sums{};
  const auto sum_at = [](int64_t row, int64_t column) { return static_cast<float>(row * 40 + column) / 2; };
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kSide; ++i) {
      sums[row * kSide + i] = sum_at(row, panel_column(i / kTile, i % kTile));
    }
  }
  constexpr uint16_t kThree = 0x4040, kBeside = 0x3f80;
  for (const int64_t columns : {int64_t{32}, int64_t{19}, int64_t{5}}) {
    for (const bool adds : {false, true}) {
      std::vector<uint16_t> out(kRows * kStride, kBeside);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < columns; ++column) out[row * kStride + column] = kThree;
      }
      (adds ? add_panel : round_panel)(sums.data(), kRows, columns, out.data(), kStride);
      for (int64_t row = 0; row < kRows; ++row) {
        for (int64_t column = 0; column < kStride; ++column) {
          const float expected = column >= columns ? 1.0F : sum_at(row, column) + (adds ? 3.0F : 0.0F);
          EXPECT_EQ(widened(out[row * kStride + column]), expected) << row << ", " << column << " of " << columns;
        }
      }
    }
  }
}

#endif

}  // namespace
}  // namespace fathom::cpu::amx::amx_panels_test
