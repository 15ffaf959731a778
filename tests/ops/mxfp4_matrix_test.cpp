// Matrices in MXFP4: read by the CPU's kernel, by ATen's operators and by rows, and as experts multiply by them.
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "ops/experts.h"
#include "ops/quantized/quantized_matrix.h"
#include "ops/quantized/quantized_parts.h"
#include "ops/quantized/quantized_rows.h"
#include "quant/mxfp4.h"
#include "tests/ops/compare.h"
#include "tests/ops/quant_tables.h"

namespace fathom::ops::mxfp4_matrix_test {
namespace {

using quant::Scheme;

// Of any codes, and of exponents that keep numbers near one.
QuantizedMatrix drawn(int64_t rows, int64_t columns) {
  QuantizedMatrix matrix =
      empty_quantized_matrix(Scheme::kMxfp4, rows, columns, at::kCPU, tables_on_cpu(Scheme::kMxfp4));
  matrix.codes.random_(0, 256);
  matrix.scales.random_(119, 128);
  return matrix;
}

at::Tensor spelled_out(const QuantizedMatrix& matrix) {
  at::Tensor out_ND = at::empty({matrix.rows, matrix.columns});
  const auto* codes = matrix.codes.const_data_ptr<uint8_t>();
  const auto* scales = matrix.scales.const_data_ptr<uint8_t>();
  auto* out = out_ND.mutable_data_ptr<float>();
  for (int64_t i = 0; i < out_ND.numel(); ++i) {
    const int code = i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4;
    out[i] = quant::kMxfp4Values[static_cast<size_t>(code)] * std::ldexp(1.0F, scales[i / quant::kMxfp4Block] - 127);
  }
  return out_ND;
}

TEST(Mxfp4Matrix, is_what_its_codes_stand_for) {
  at::manual_seed(8);
  for (const auto& [rows, columns] : std::vector<std::pair<int64_t, int64_t>>{{3, 32}, {5, 96}, {70, 2880}}) {
    const QuantizedMatrix matrix = drawn(rows, columns);
    EXPECT_EQ(matrix.codes.nbytes() + matrix.scales.nbytes(), static_cast<size_t>(rows * columns / 32 * 17));
    const at::Tensor expected_ND = spelled_out(matrix);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      EXPECT_TRUE(at::equal(dequantize(matrix, type), expected_ND.to(type))) << rows << " x " << columns;
      EXPECT_TRUE(at::equal(dequantize_in_parts(matrix, type), expected_ND.to(type))) << rows << " x " << columns;
    }
    EXPECT_TRUE(at::equal(expected_ND.to(at::kBFloat16).to(at::kFloat), expected_ND)) << "BF16 holds every value";
    EXPECT_TRUE(at::equal(dequantize_rows(matrix, 1, rows - 1), expected_ND.narrow(0, 1, rows - 1)));
  }
}

TEST(Mxfp4Matrix, is_made_a_block_at_a_time) {
  at::manual_seed(9);
  const at::Tensor values_ND = at::randn({70, 64});
  const QuantizedMatrix matrix = empty_quantized_matrix(Scheme::kMxfp4, 70, 64, at::kCPU, {});
  quantize(matrix,
           [&](int64_t first, const at::Tensor& part) { part.copy_(values_ND.narrow(0, first, part.size(0))); });
  const auto* values = values_ND.const_data_ptr<float>();
  for (int64_t block = 0; block < 140; ++block) {
    std::vector<uint8_t> codes(16);
    const float scale = quant::quantize_mxfp4(values + block * 32, 32, codes.data());
    EXPECT_EQ(matrix.scales[block].item<int>(), quant::mxfp4_exponent(scale));
    EXPECT_EQ(std::memcmp(matrix.codes.const_data_ptr<uint8_t>() + block * 16, codes.data(), 16), 0);
  }
  EXPECT_LE(relative_difference(dequantize(matrix, at::kFloat), values_ND), 0.2);
}

TEST(Mxfp4Matrix, is_an_expert_s_as_what_it_stands_for) {
  at::manual_seed(10);
  constexpr int64_t kExperts = 3, kWidth = 64, kInner = 32, kTokens = 17;
  const QuantizedMatrix gate_up = drawn(kExperts * 2 * kInner, kWidth), down = drawn(kExperts * kWidth, kInner);
  const at::Tensor x = draw({kTokens, kWidth}, at::kFloat), logits = draw({kTokens, kExperts}, at::kFloat),
                   gate_up_biases = draw({kExperts * 2 * kInner}, at::kFloat),
                   down_biases = draw({kExperts * kWidth}, at::kFloat);
  const auto made = [&](ExpertMatrices matrices) {
    matrices.clamped = ClampedGate{};
    matrices.gate_up.biases = gate_up_biases;
    matrices.down.biases = down_biases;
    const at::Tensor leaf = x.clone().set_requires_grad(true);
    const Router router{kExperts, 2, true, /*biased_experts=*/true};
    const at::Tensor y =
        experts(LinearInput(leaf), route(logits, router, {}, nullptr), matrices, ComputeScope(at::kCPU, at::kFloat));
    torch::autograd::backward({y.square().sum()}, {});
    return std::pair{y.detach(), leaf.grad()};
  };
  const auto [y, grad] = made({kExperts, {{}, gate_up}, {{}, down}});
  const auto [expected, expected_grad] = made({kExperts, {spelled_out(gate_up)}, {spelled_out(down)}});
  EXPECT_TRUE(at::equal(y, expected));
  EXPECT_TRUE(at::equal(grad, expected_grad));
}

}  // namespace
}  // namespace fathom::ops::mxfp4_matrix_test
