// INT8 products: exact sums and two scales, whatever multiplies; rows quantized as lib/quant does; layers that use
// them.
#include "ops/linear/int8_linear.h"

#include <ATen/core/grad_mode.h>
#include <ATen/native/CPUBlas.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cpu/amx_codes.h"
#include "cpu/amx_product.h"
#include "ledger/ledger.h"
#include "ops/linear/linear.h"
#include "quant/int8.h"
#include "tests/ops/compare.h"
#include "tests/ops/threads.h"

namespace fathom::ops::int8_linear_test {
namespace {

struct Sides {
  int64_t rows, columns, outputs;  // T, D, N
};
// Few rows, one tile, none whole, several depths and pieces, an odd depth, which tiles do not take; whole tiles.
constexpr Sides kSides[] = {{1, 64, 64},   {5, 130, 33},    {15, 64, 7},       {16, 64, 64},
                            {17, 130, 67}, {64, 2000, 513}, {600, 1600, 1100}, {1030, 770, 1030},
                            {40, 333, 95}, {3, 51, 9},      {33, 1984, 96},    {777, 1600, 512}};

bool has_amx() { return at::native::cpublas::could_pack(at::kBFloat16); }

at::Tensor draw_codes(int64_t rows, int64_t columns) { return at::randint(-127, 128, {rows, columns}, at::kChar); }

QuantizedMatrix draw_matrix(int64_t rows, int64_t columns) {
  QuantizedMatrix matrix = empty_quantized_matrix(quant::Scheme::kInt8, rows, columns, at::kCPU, {});
  matrix.codes.copy_(draw_codes(rows, columns));
  matrix.scales.uniform_(0.001, 0.1);
  return matrix;
}

Int8Rows draw_rows(int64_t rows, int64_t columns) { return {draw_codes(rows, columns), at::rand({rows}, at::kFloat)}; }

// As they lie side by side, whatever the processor.
Int8Rows quantize_side_by_side(const at::Tensor& x_TD) { return quantize_rows(x_TD.to(at::kDouble)); }

// From cpu/amx_codes.h's order to that of x.
at::Tensor side_by_side(const Int8Rows& x) {
  const int64_t rows = x.scales_T.size(0), columns = x.codes_TD.size(1);
  if (!x.in_tiles) return x.codes_TD;
  return x.codes_TD.view({-1, columns / cpu::amx::kTileCodes, cpu::amx::kTileRows, cpu::amx::kTileCodes})
      .transpose(1, 2)
      .reshape({-1, columns})
      .narrow(0, 0, rows);
}

at::Tensor expected(const Int8Rows& x, const QuantizedMatrix& weight_ND, at::ScalarType dtype) {
  const at::Tensor sums_TN = at::mm(x.codes_TD.to(at::kDouble), weight_ND.codes.to(at::kDouble).t());
  return (sums_TN.to(at::kFloat) * x.scales_T.unsqueeze(1) * weight_ND.scales).to(dtype);
}

TEST(Int8Product, IsExactButForItsRounding) {
  at::manual_seed(1);
  for (const auto& [rows, columns, outputs] : kSides) {
    const Int8Rows x = draw_rows(rows, columns);
    const QuantizedMatrix weight_ND = draw_matrix(outputs, columns);
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      EXPECT_TRUE(at::equal(int8_product(x, weight_ND, dtype), expected(x, weight_ND, dtype)))
          << rows << " x " << columns << " x " << outputs << " " << dtype;
    }
  }
}

TEST(Int8Product, HasTheSameBitsWithCodesInTiles) {
  at::manual_seed(6);
  for (const auto& [rows, columns, outputs] : kSides) {
    const at::Tensor x_TD = at::randn({rows, columns}).to(at::kBFloat16);
    QuantizedMatrix weight_ND = draw_matrix(outputs, columns);
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      QuantizedMatrix ordered_ND = weight_ND;
      ordered_ND.codes = weight_ND.codes.clone();
      order_in_tiles(ordered_ND);
      EXPECT_EQ(ordered_ND.in_tiles, has_amx() && outputs % 32 == 0 && columns % 64 == 0);
      EXPECT_TRUE(at::equal(int8_product(quantize_rows(x_TD), ordered_ND, dtype),
                            expected(quantize_side_by_side(x_TD), weight_ND, dtype)))
          << rows << " x " << columns << " x " << outputs << " " << dtype;
    }
  }
}

TEST(Int8Product, HoldsTheLargestSums) {
  constexpr int64_t kColumns = kMostInt8Columns / 64 * 64;
  for (const int64_t rows : {2, 40}) {
    Int8Rows x{at::full({rows, kColumns}, 127, at::kChar), at::ones({rows}, at::kFloat)};
    x.codes_TD[1].fill_(-127);
    QuantizedMatrix weight_ND = draw_matrix(3, kColumns);
    weight_ND.codes.fill_(-128);
    EXPECT_TRUE(at::equal(int8_product(x, weight_ND, at::kFloat), expected(x, weight_ND, at::kFloat))) << rows;
  }
}

TEST(Int8Product, HasTheSameBitsWithAnyNumberOfThreads) {
  at::manual_seed(2);
  for (const int64_t rows : {3, 300}) {
    const Int8Rows x = draw_rows(rows, 900);
    const QuantizedMatrix weight_ND = draw_matrix(800, 900);
    for (const int count : {1, 2, 3, 5}) {
      const Threads threads(count);
      EXPECT_TRUE(at::equal(int8_product(x, weight_ND, at::kBFloat16), expected(x, weight_ND, at::kBFloat16))) << count;
    }
  }
}

TEST(Int8Product, TakesNoMatrixOfIntegers) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  const Threads one(1);
  ledger::Ledger& ledger = ledger::install_cpu();
  const Int8Rows x = draw_rows(256, 2000);
  const QuantizedMatrix weight_ND = draw_matrix(512, 2000);
  ledger.label();
  const int64_t before = ledger.label().peak;
  const at::Tensor out_TN = int8_product(x, weight_ND, at::kBFloat16);
  EXPECT_EQ(ledger.label().peak - before,
            static_cast<int64_t>(out_TN.nbytes()) + cpu::amx::product_scratch_bytes(256, 512, 1000));
}

void expect_codes_of_rows(const at::Tensor& x_TD) {
  const Int8Rows quantized = quantize_rows(x_TD);
  const at::Tensor wide_TD = x_TD.to(at::kFloat), codes_TD = side_by_side(quantized);
  const int64_t columns = x_TD.size(1);
  std::vector<int8_t> codes(static_cast<size_t>(columns));
  for (int64_t row = 0; row < x_TD.size(0); ++row) {
    const float scale = quant::quantize_int8(wide_TD[row].const_data_ptr<float>(), columns, codes.data());
    const auto made = quantized.scales_T[row].item<float>();
    EXPECT_TRUE(scale == made || (std::isnan(scale) && std::isnan(made))) << row;
    EXPECT_TRUE(at::equal(codes_TD[row], at::from_blob(codes.data(), {columns}, at::kChar))) << row;
  }
}

TEST(QuantizeRows, AreThoseOfAMatrixsRows) {
  at::manual_seed(3);
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t columns : {1500, 1536}) {
      EXPECT_EQ(quantize_rows(at::zeros({1, columns}, dtype)).in_tiles, has_amx() && columns == 1536);
      at::Tensor x_TD = at::randn({37, columns}, at::kFloat).to(dtype);
      x_TD[5].zero_();
      x_TD[6].mul_(1e4);
      x_TD[7].mul_(1e-3);
      x_TD[8][3] = std::numeric_limits<float>::infinity();
      x_TD[9][4] = -std::numeric_limits<float>::quiet_NaN();
      if (dtype != at::kHalf) x_TD[10].mul_(1e-33);
      expect_codes_of_rows(x_TD);
    }
  }
}

TEST(Int8Product, PacksNothingInTiles) {
  if (!has_amx()) GTEST_SKIP() << "this processor has no AMX";
  const Threads one(1);
  ledger::Ledger& ledger = ledger::install_cpu();
  const Int8Rows x = quantize_rows(at::randn({256, 2048}));
  QuantizedMatrix weight_ND = draw_matrix(512, 2048);
  ledger.label();
  const int64_t before = ledger.label().peak;
  order_in_tiles(weight_ND);
  EXPECT_EQ(ledger.label().peak, before);
  const at::Tensor out_TN = int8_product(x, weight_ND, at::kBFloat16);
  const int64_t scratch = cpu::amx::product_scratch_bytes(256, 512, 1024, /*in_tiles=*/true);
  EXPECT_EQ(ledger.label().peak - before, static_cast<int64_t>(out_TN.nbytes()) + scratch);
  EXPECT_LT(scratch, cpu::amx::product_scratch_bytes(256, 512, 1024));
}

TEST(QuantizeRows, HaveTheSameCodesByOperators) {
  at::manual_seed(4);
  at::Tensor x_TD = at::randn({37, 1500}, at::kDouble);  // FP64 has no kernel
  x_TD = x_TD.to(at::kFloat).to(at::kDouble);
  x_TD[5].zero_();
  const Int8Rows by_operators = quantize_rows(x_TD), by_kernel = quantize_rows(x_TD.to(at::kFloat));
  EXPECT_TRUE(at::equal(by_operators.codes_TD, side_by_side(by_kernel)));
  EXPECT_TRUE(at::equal(by_operators.scales_T, by_kernel.scales_T));
}

TEST(Int8Activations, MultiplyCodesByCodes) {
  at::manual_seed(5);
  const at::NoGradGuard no_gradients;
  for (const int64_t rows : {2, 70}) {
    Linear layer{at::Tensor(), at::randn({96}), std::nullopt, draw_matrix(96, 128)};
    layer.int8_activations = true;
    const at::Tensor x_TD = at::randn({rows, 128});
    const LinearInput input(x_TD);
    const ComputeScope compute(at::kCPU, at::kFloat);
    const at::Tensor y_TN = linear(input, layer, compute, /*training=*/false);
    EXPECT_TRUE(
        at::equal(y_TN, expected(quantize_side_by_side(x_TD), *layer.quantized_ND, at::kFloat).add_(layer.bias_N)));
    layer.int8_activations = false;
    const at::Tensor exact_TN = linear(input, layer, compute, /*training=*/false);
    EXPECT_FALSE(at::equal(y_TN, exact_TN));
    EXPECT_LT((y_TN - exact_TN).norm().item<double>(), 0.02 * exact_TN.norm().item<double>());
  }
}

}  // namespace
}  // namespace fathom::ops::int8_linear_test
