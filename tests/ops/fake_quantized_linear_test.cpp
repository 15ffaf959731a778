// Linear layers in quantization-aware training: gradients of input, weight, bias, adapter and steps against autograd's
// on the formulas, and what is kept.
#include "ops/linear/fake_quantized_linear.h"

#include "tests/ops/compare.h"

namespace fathom::ops::fake_quantized_linear_test {
namespace {

using quant::Scheme;

constexpr int64_t kGroup = 32;

at::Tensor round_straight_through(const at::Tensor& x) { return x + (x.round() - x).detach(); }

// As scripts/golden/lsq.py has it.
at::Tensor rounded(const at::Tensor& weight_ND, const at::Tensor& log_steps_NG, Scheme scheme) {
  const bool int4 = quant::is_int4(scheme);
  const at::Tensor steps = log_steps_NG.exp().unsqueeze(-1);
  const at::Tensor places = weight_ND.view({weight_ND.size(0), log_steps_NG.size(1), -1}) / steps;
  return (round_straight_through(places.clamp(int4 ? -8 : -127, int4 ? 7 : 127)) * steps).view_as(weight_ND);
}

at::Tensor log_steps_of(const at::Tensor& weight_ND, Scheme scheme) {
  const int64_t groups = scheme == Scheme::kInt8 ? 1 : weight_ND.size(1) / kGroup;
  const FakeQuantizer quantizer{scheme, at::empty({weight_ND.size(0), groups})};
  initialise_steps(weight_ND, quantizer);
  return quantizer.log_steps_NG - 0.3;  // some are beyond the codes
}

class RoundedLinear : public ::testing::TestWithParam<std::tuple<Scheme, at::ScalarType>> {
 protected:
  void SetUp() override { at::manual_seed(4); }
  const Scheme scheme = std::get<0>(GetParam());
  const at::ScalarType type = std::get<1>(GetParam());
};

TEST_P(RoundedLinear, gives_the_gradients_of_the_formulas) {
  const Operator ours = [this](const std::vector<at::Tensor>& in) {
    Linear layer{in[1], in[2], std::nullopt};
    layer.quantizer = FakeQuantizer{scheme, in[3]};
    return linear(LinearInput(in[0]), layer, ComputeScope(at::kCPU, type), true);
  };
  const Operator reference = [this](const std::vector<at::Tensor>& in) {
    return at::linear(in[0], rounded(in[1], in[3], scheme), in[2]);
  };
  const at::Tensor weight_ND = draw({7, 2 * kGroup}, type, 0.1);
  expect_equal(ours, reference,
               {draw({13, 2 * kGroup}, type), weight_ND, draw({7}, type), log_steps_of(weight_ND, scheme)});
}

TEST_P(RoundedLinear, rounds_a_weight_with_its_adapter) {
  const Operator ours = [this](const std::vector<at::Tensor>& in) {
    Linear layer{in[1], {}, LoraAdapter{in[2], in[3], 2.5, 0}};
    layer.quantizer = FakeQuantizer{scheme, in[4]};
    return linear(LinearInput(in[0]), layer, ComputeScope(at::kCPU, type), true);
  };
  const Operator reference = [this](const std::vector<at::Tensor>& in) {
    const at::Tensor merged_ND = in[1] + 2.5 * at::mm(in[3], in[2]);
    return at::linear(in[0], rounded(merged_ND, in[4], scheme));
  };
  const at::Tensor weight_ND = draw({7, 2 * kGroup}, type, 0.1);
  expect_equal(ours, reference,
               {draw({13, 2 * kGroup}, type), weight_ND, draw({3, 2 * kGroup}, at::kFloat, 0.02),
                draw({7, 3}, at::kFloat, 0.02), log_steps_of(weight_ND, scheme)});
}

INSTANTIATE_TEST_SUITE_P(Schemes, RoundedLinear,
                         ::testing::Combine(::testing::Values(Scheme::kInt8, Scheme::kInt4Group32),
                                            ::testing::Values(at::kFloat, at::kBFloat16)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param) == Scheme::kInt8 ? "int8_" : "int4_") +
                                  at::toString(std::get<1>(info.param));
                         });

// Bit 0 to 5: whether x, weight, bias, A, B and the steps need a gradient.
TEST(FakeQuantizedLinear, gives_the_same_gradients_whoever_needs_one) {
  for (const bool autocasts : {false, true}) {
    at::manual_seed(4);
    const at::Tensor weight_ND = draw({7, kGroup}, at::kFloat, 0.1);
    const std::vector<at::Tensor> values = {
        draw({13, kGroup}, at::kFloat), weight_ND,
        draw({7}, at::kFloat),          draw({3, kGroup}, at::kFloat, 0.1),
        draw({7, 3}, at::kFloat, 0.1),  log_steps_of(weight_ND, Scheme::kInt4Group32)};
    std::vector<at::Tensor> expected;
    for (int needed = 63; needed > 0; --needed) {
      std::vector<at::Tensor> in;
      for (int i = 0; i < 6; ++i) in.push_back(values[i].clone().set_requires_grad((needed >> i & 1) != 0));
      const AutocastScope autocast(at::kCPU, autocasts);
      const ComputeScope compute(at::kCPU, at::kFloat);
      Linear layer{in[1], in[2], LoraAdapter{in[3], in[4], 2.5, 0}};
      layer.quantizer = FakeQuantizer{Scheme::kInt4Group32, in[5]};
      const at::Tensor y_TN = linear(LinearInput(in[0].to(compute.dtype())), layer, compute, true);
      torch::autograd::backward({y_TN.to(at::kFloat).square().sum()}, {});
      if (expected.empty()) {
        for (const at::Tensor& each : in) expected.push_back(each.grad());
      }
      for (int i = 0; i < 6; ++i) {
        const bool needs = (needed >> i & 1) != 0;
        ASSERT_EQ(in[i].grad().defined(), needs) << needed << ", " << i;
        EXPECT_TRUE(!needs || in[i].grad().equal(expected[i])) << needed << ", " << i;
      }
    }
  }
}

// An adapter's weights and the merged weight see the same codes in training and in an export.
TEST(FakeQuantizedLinear, multiplies_by_the_codes_that_are_exported) {
  at::manual_seed(4);
  const at::Tensor weight_ND = draw({7, kGroup}, at::kFloat, 0.1), x_TD = at::eye(kGroup);
  const LoraAdapter adapter{draw({3, kGroup}, at::kFloat, 0.1), draw({7, 3}, at::kFloat, 0.1), 2.5, 0};
  Linear layer{weight_ND, {}, adapter};
  layer.quantizer = FakeQuantizer{Scheme::kInt4Group32, log_steps_of(weight_ND, Scheme::kInt4Group32)};
  const at::Tensor y_TN = linear(LinearInput(x_TD), layer, ComputeScope(at::kCPU, at::kFloat), true);
  const auto [codes_ND, steps_NG] = learned_codes(merged_weight(weight_ND, adapter), *layer.quantizer);
  EXPECT_TRUE(at::equal(y_TN.t(), codes_ND.to(at::kFloat) * steps_NG));
}

}  // namespace
}  // namespace fathom::ops::fake_quantized_linear_test
