// Products in FP8 against those of the numbers that the codes stand for, and layers against layers without rounding.
#include "ops/linear/fp8_linear.h"

#include "ops/linear/linear.h"
#include "tests/ops/compare.h"
#include "tests/ops/quant_tables.h"

namespace fathom::ops::fp8_linear_test {
namespace {

constexpr double kE4m3Step = 1.0 / 16;  // at most half of a code's last bit, of its number

QuantizedMatrix in_fp8(const at::Tensor& weight_ND) {
  QuantizedMatrix matrix = empty_quantized_matrix(quant::Scheme::kFp8, weight_ND.size(0), weight_ND.size(1), at::kCPU,
                                                  tables_on_cpu(quant::Scheme::kFp8));
  quantize(matrix, [&](int64_t first, const at::Tensor& part_RD) {
    part_RD.copy_(weight_ND.narrow(0, first, part_RD.size(0)));
  });
  return matrix;
}

TEST(Fp8Rows, keep_the_largest_and_round_the_rest) {
  at::manual_seed(3);
  const at::Tensor x_TD = draw({6, 48}, at::kBFloat16, 5), wide_TD = x_TD.to(at::kFloat);
  for (const at::ScalarType type : {at::kFloat8_e4m3fn, at::kFloat8_e5m2}) {
    const Fp8Rows rows = quantize_rows_to_fp8(x_TD, type);
    const at::Tensor again_TD = rows.codes_TD.to(at::kFloat) * rows.scales_T1;
    const double step = type == at::kFloat8_e4m3fn ? kE4m3Step : 2 * kE4m3Step;
    EXPECT_TRUE(((again_TD - wide_TD).abs() <= wide_TD.abs() * step + rows.scales_T1 * 1e-2).all().item<bool>());
    EXPECT_LE(relative_difference(again_TD.abs().amax(1), wide_TD.abs().amax(1)), 1e-6);
  }
}

TEST(Fp8Rows, of_nothing_but_zeros_are_zeros) {
  const Fp8Rows rows = quantize_rows_to_fp8(at::zeros({2, 16}), at::kFloat8_e4m3fn);
  EXPECT_TRUE(rows.codes_TD.to(at::kFloat).eq(0).all().item<bool>());
  EXPECT_TRUE(rows.scales_T1.eq(0).all().item<bool>());
}

TEST(Fp8Product, is_that_of_the_codes_numbers) {
  at::manual_seed(3);
  const at::Tensor x_TD = draw({6, 48}, at::kBFloat16, 2);
  const QuantizedMatrix weight_ND = in_fp8(draw({32, 48}, at::kFloat));
  const Fp8Rows rows = quantize_rows_to_fp8(x_TD, at::kFloat8_e4m3fn);
  const at::Tensor numbers_TD = rows.codes_TD.to(at::kDouble) * rows.scales_T1;
  const at::Tensor weights_ND = dequantize(weight_ND, at::kFloat).to(at::kDouble);
  const at::Tensor y_TN = fp8_product(rows, weight_ND, at::kBFloat16);
  EXPECT_EQ(y_TN.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_difference(y_TN, at::mm(numbers_TD, weights_ND.t())), tolerance(at::kBFloat16));
  EXPECT_LE(relative_difference(y_TN, at::mm(x_TD.to(at::kDouble), weights_ND.t())), kE4m3Step);
}

TEST(Fp8Product, of_a_gradient_reads_the_scales_of_rows_with_it) {
  at::manual_seed(3);
  const at::Tensor grad_TN = draw({6, 32}, at::kBFloat16);
  const QuantizedMatrix weight_ND = in_fp8(draw({32, 48}, at::kFloat) * at::arange(1, 33).unsqueeze(1));
  const at::Tensor expected_TD = at::mm(grad_TN.to(at::kDouble), dequantize(weight_ND, at::kFloat).to(at::kDouble));
  const at::Tensor made_TD = fp8_gradient_of_input(grad_TN, weight_ND);
  EXPECT_EQ(made_TD.scalar_type(), at::kBFloat16);
  EXPECT_LE(relative_difference(made_TD, expected_TD), 2 * kE4m3Step);
}

// What a layer gives, and the gradients of its input and adapter, are near those over the base's numbers.
TEST(Fp8Product, in_a_layer_is_near_that_of_its_numbers) {
  at::manual_seed(3);
  const at::Tensor x_TD = draw({20, 48}, at::kBFloat16), grad_TN = draw({20, 32}, at::kBFloat16);
  const at::Tensor a_RD = draw({4, 48}, at::kFloat), b_NR = draw({32, 4}, at::kFloat);
  std::vector<std::vector<at::Tensor>> found;
  for (const bool fp8 : {false, true}) {
    const auto leaf = [](const at::Tensor& x) { return x.clone().set_requires_grad(true); };
    const at::Tensor x = leaf(x_TD), a = leaf(a_RD), b = leaf(b_NR);
    at::manual_seed(4);
    Linear layer{{}, {}, LoraAdapter{a, b, 0.5, 0}, in_fp8(draw({32, 48}, at::kFloat))};
    layer.fp8_products = fp8;
    const at::Tensor y = linear(LinearInput(x), layer, ComputeScope(at::kCPU, at::kBFloat16), true);
    torch::autograd::backward({y}, {grad_TN});
    found.push_back({y, x.grad(), a.grad(), b.grad()});
  }
  for (size_t i = 0; i < found[0].size(); ++i) {
    const bool through_base = i < 2;
    const double difference = relative_difference(found[1][i], found[0][i]);
    EXPECT_LE(difference, through_base ? 2 * kE4m3Step : 1e-6) << i;
    if (through_base) {
      EXPECT_GT(difference, 1e-4) << "nothing was rounded to FP8";
    }
  }
}

// A weight that is trained: rounded for two of three products, and given a gradient of what the layer read.
TEST(Fp8Product, of_a_weight_that_is_trained_leaves_its_gradient_as_it_is) {
  at::manual_seed(3);
  const at::Tensor x_TD = draw({20, 48}, at::kBFloat16), grad_TN = draw({20, 32}, at::kBFloat16);
  const at::Tensor bias_N = draw({32}, at::kFloat);
  for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
    const at::Tensor weight_ND = draw({32, 48}, stored);
    std::vector<std::vector<at::Tensor>> found;
    for (const bool fp8 : {false, true}) {
      const auto leaf = [](const at::Tensor& x) { return x.clone().set_requires_grad(true); };
      const at::Tensor x = leaf(x_TD), weight = leaf(weight_ND), bias = leaf(bias_N.to(stored));
      Linear layer{weight, bias, {}};
      layer.fp8_products = fp8;
      const AutocastScope autocast(c10::DeviceType::CPU, true);
      const at::Tensor y = linear(LinearInput(x), layer, ComputeScope(at::kCPU, at::kBFloat16), true);
      torch::autograd::backward({y}, {grad_TN});
      found.push_back({y, x.grad(), weight.grad(), bias.grad()});
    }
    for (size_t i = 0; i < found[0].size(); ++i) {
      const bool rounded = i < 2;
      EXPECT_EQ(found[1][i].scalar_type(), found[0][i].scalar_type());
      const double difference = relative_difference(found[1][i], found[0][i]);
      EXPECT_LE(difference, rounded ? 2 * kE4m3Step : 1e-6) << i;
      if (rounded) {
        EXPECT_GT(difference, 1e-4) << "nothing was rounded to FP8";
      }
    }
  }
}

}  // namespace
}  // namespace fathom::ops::fp8_linear_test
