// INT8: the codes of bitsandbytes, and what the length of a run is a choice of.
#include "quant/int8.h"

#include <numeric>

#include "base/json_value.h"
#include "tests/quant/golden.h"

namespace fathom::quant::int8_test {
namespace {

constexpr int64_t kRow = 64;

// Mean of squares of what is lost when every `run` values share a scale.
double mean_squared_error(const std::vector<float>& values, int64_t run) {
  const auto n = static_cast<int64_t>(values.size());
  std::vector<int8_t> codes(n);
  std::vector<float> read(n);
  double squares = 0;
  for (int64_t i = 0; i < n; i += run) {
    const float scale = quantize_int8(values.data() + i, run, codes.data() + i);
    dequantize_int8(codes.data() + i, scale, run, read.data() + i);
  }
  for (int64_t i = 0; i < n; ++i) squares += std::pow(double{values[i]} - read[i], 2);
  return squares / static_cast<double>(n);
}

TEST(Int8, HasTheCodesOfBitsandbytes) {
  const Json& golden = golden_blocks()["int8"];
  const auto rows = array_of<float>(golden_blocks()["rows"]), largest = array_of<float>(golden["largest"]);
  const auto values = array_of<float>(golden["values"]);
  std::vector<int8_t> codes(rows.size());
  std::vector<float> read(rows.size());
  for (size_t row = 0; row < largest.size(); ++row) {
    const size_t first = row * kRow;
    const float scale = quantize_int8(rows.data() + first, kRow, codes.data() + first);
    EXPECT_EQ(scale, largest[row] / 127) << row;
    dequantize_int8(codes.data() + first, scale, kRow, read.data() + first);
  }
  EXPECT_EQ(count_different(codes, array_of<int8_t>(golden["codes"])), 0);
  // It keeps the largest magnitude and multiplies by it and by 1/127, rounding twice where we round once: as far as two
  // units in the last place.
  EXPECT_GT(count_different(read, values), 0);
  for (size_t i = 0; i < read.size(); ++i) EXPECT_NEAR(read[i], values[i], std::abs(values[i]) * 0x1p-22f) << i;
}

TEST(Int8, ShorterRunsLoseLessWhereMagnitudesDiffer) {
  std::vector<float> values = random_run(3, 64 * kRow, 1);
  for (int64_t row = 0; row < 64; ++row) {
    for (int64_t i = 0; i < kRow; ++i) values[row * kRow + i] *= std::pow(2.0f, static_cast<float>(row % 8));
  }
  const double tensor = mean_squared_error(values, 64 * kRow), row = mean_squared_error(values, kRow);
  const double block = mean_squared_error(values, kRow / 4);
  EXPECT_LT(row, tensor / 3);
  EXPECT_LT(block, row);
}

TEST(Int8, RoundsTiesToEven) {
  const std::vector<float> values = {127, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 126.5f};
  std::vector<int8_t> codes(values.size());
  EXPECT_EQ(quantize_int8(values.data(), static_cast<int64_t>(values.size()), codes.data()), 1);
  EXPECT_EQ(codes, (std::vector<int8_t>{127, 0, 2, 2, 0, -2, -2, 126}));
}

}  // namespace
}  // namespace fathom::quant::int8_test
