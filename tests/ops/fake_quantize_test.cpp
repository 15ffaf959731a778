// Fake quantization: LSQ's formulas by torch's autograd, the same by kernels and by ATen's operators, finite
// differences, and what is exported.
#include "ops/quantized/fake_quantize.h"

#include <cmath>
#include <limits>

#include "base/json_value.h"
#include "ops/quantized/fake_quantize_parts.h"
#include "quant/int4.h"
#include "quant/int8.h"
#include "tests/ops/compare.h"
#include "tests/ops/threads.h"

namespace fathom::ops::fake_quantize_test {
namespace {

using quant::Scheme;

FakeQuantizer quantizer_of(Scheme scheme, const at::Tensor& weight_ND) {
  const int64_t group = quant::has_row_scales(scheme) ? weight_ND.size(1) : quant::block_of(scheme);
  FakeQuantizer quantizer{scheme, at::empty({weight_ND.size(0), weight_ND.size(1) / group})};
  initialise_steps(weight_ND, quantizer);
  return quantizer;
}

cpu::StepGrid grid_of(const FakeQuantizer& quantizer, const at::Tensor& weight_ND) {
  const bool int4 = quant::is_int4(quantizer.scheme);
  return {weight_ND.size(1) / quantizer.log_steps_NG.size(1), int4 ? -8.0f : -127.0f, int4 ? 7.0f : 127.0f};
}

class FakeQuantized : public ::testing::TestWithParam<Scheme> {
 protected:
  // Some beyond the codes.
  void SetUp() override {
    at::manual_seed(8);
    weight_ND = at::randn({70, 256}) * 0.02;
    quantizer = quantizer_of(GetParam(), weight_ND);
    quantizer.log_steps_NG.sub_(at::rand(quantizer.log_steps_NG.sizes()));
  }
  at::Tensor weight_ND;
  FakeQuantizer quantizer;
};

TEST_P(FakeQuantized, is_its_codes_times_their_step_and_stays_where_it_is) {
  const at::Tensor rounded_ND = fake_quantize(weight_ND, quantizer, at::kFloat);
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const auto [codes_ND, steps_NG] = learned_codes(weight_ND, quantizer);
  EXPECT_GE(codes_ND.min().item<int>(), grid.lowest);
  EXPECT_LE(codes_ND.max().item<int>(), grid.highest);
  const at::Tensor read_back =
      codes_ND.to(at::kFloat).view({-1, grid.group}).mul(steps_NG.view({-1, 1})).view_as(weight_ND);
  EXPECT_TRUE(at::equal(rounded_ND, read_back));
  EXPECT_TRUE(at::equal(fake_quantize(rounded_ND, quantizer, at::kFloat), rounded_ND)) << "idempotent";
  EXPECT_TRUE(at::equal(fake_quantize(weight_ND, quantizer, at::kBFloat16), rounded_ND.to(at::kBFloat16)));
  const at::Tensor in_place_ND = weight_ND.clone();
  fake_quantize_(in_place_ND, quantizer);
  EXPECT_TRUE(at::equal(in_place_ND, rounded_ND));
}

TEST_P(FakeQuantized, is_off_by_half_a_step_at_most_within_the_codes) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor steps = quantizer.log_steps_NG.view({-1, 1}).exp();
  const at::Tensor values = weight_ND.view({-1, grid.group});
  const at::Tensor off = (fake_quantize(weight_ND, quantizer, at::kFloat).view_as(values) - values).abs();
  const at::Tensor places = values / steps;
  const at::Tensor inside = places.ge(grid.lowest).logical_and(places.le(grid.highest));
  EXPECT_LE(((off - steps * 0.500001) * inside).max().item<float>(), 0);
  EXPECT_LT(inside.to(at::kFloat).mean().item<float>(), 1) << "the test means to have some beyond";
}

TEST_P(FakeQuantized, is_the_same_by_operators_and_on_two_threads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor stored_ND = weight_ND.to(type), upstream_ND = at::randn(weight_ND.sizes()).to(type);
    const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
    at::Tensor out_ND = at::empty_like(stored_ND), gradient_ND = upstream_ND.clone();
    at::Tensor sums_NG = at::empty_like(quantizer.log_steps_NG);
    fake_quantize_in_parts(stored_ND, quantizer.log_steps_NG, grid, out_ND);
    fake_quantize_backward_in_parts(gradient_ND, stored_ND, quantizer.log_steps_NG, grid, sums_NG);
    for (const int threads : {1, 2}) {
      const Threads scope(threads);
      EXPECT_LE(relative_difference(fake_quantize(stored_ND, quantizer, type), out_ND), tolerance(type) / 4);
      const at::Tensor in_place_ND = upstream_ND.clone();
      const at::Tensor by_kernel_NG = fake_quantize_backward(in_place_ND, stored_ND, quantizer);
      EXPECT_TRUE(at::equal(in_place_ND, gradient_ND)) << "the same places are beyond the codes";
      EXPECT_LE(relative_difference(by_kernel_NG, sums_NG), 1e-5);
    }
  }
}

TEST_P(FakeQuantized, begins_as_rounding_without_training) {
  const FakeQuantizer first = quantizer_of(GetParam(), weight_ND);
  const at::Tensor rounded_ND = fake_quantize(weight_ND, first, at::kFloat);
  const cpu::StepGrid grid = grid_of(first, weight_ND);
  std::vector<uint8_t> codes(static_cast<size_t>(grid.group));
  at::Tensor expected_ND = at::empty_like(weight_ND);
  for (int64_t place = 0; place < weight_ND.numel(); place += grid.group) {
    const float* from = weight_ND.const_data_ptr<float>() + place;
    float* to = expected_ND.mutable_data_ptr<float>() + place;
    if (GetParam() == Scheme::kInt8) {
      auto* signed_codes = reinterpret_cast<int8_t*>(codes.data());
      quant::dequantize_int8(signed_codes, quant::quantize_int8(from, grid.group, signed_codes), grid.group, to);
    } else {
      quant::dequantize_int4(codes.data(), quant::quantize_int4(from, grid.group, codes.data()), grid.group, to);
    }
  }
  // INT4's largest magnitudes lie halfway between two codes, and a logarithm and its exponential turn ties.
  const at::Tensor values = weight_ND.view({-1, grid.group});
  const at::Tensor smaller = values.abs().le(values.abs().amax(1, true) * 0.9999);
  const at::Tensor difference = (rounded_ND - expected_ND).view_as(values) * smaller;
  EXPECT_LE(difference.abs().max().item<float>(), 1e-5 * values.abs().max().item<float>());
}

// The loss is linear in what is read back: a difference of the step, with codes that stay, is the sum of upstream x
// code x step. To it LSQ adds what the straight-through rounding makes of v / s: upstream x -v within the codes.
TEST_P(FakeQuantized, agrees_with_finite_differences_of_steps_and_the_straight_through_term) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor upstream = at::randn(weight_ND.sizes()).to(at::kDouble).view({-1, grid.group});
  const at::Tensor values = weight_ND.to(at::kDouble).view({-1, grid.group});
  const at::Tensor log_steps = quantizer.log_steps_NG.to(at::kDouble).view({-1, 1});
  const at::Tensor places = values / log_steps.exp();
  const at::Tensor codes = places.round().clamp(grid.lowest, grid.highest);
  constexpr double kDifference = 1e-4;
  const auto loss = [&](double change) { return (upstream * codes * (log_steps + change).exp()).sum(1); };
  const at::Tensor difference = (loss(kDifference) - loss(-kDifference)) / (2 * kDifference);
  const at::Tensor inside = places.ge(grid.lowest).logical_and(places.le(grid.highest));
  const at::Tensor expected = difference - (upstream * values * inside).sum(1);
  const at::Tensor gradient_ND = upstream.to(at::kFloat).view_as(weight_ND);
  const at::Tensor actual_NG = fake_quantize_backward(gradient_ND, weight_ND, quantizer);
  EXPECT_LE(relative_difference(actual_NG.view({-1}), expected), 1e-5);
}

// Weights alike in all, moved by the same factor as the step: what is read back moves with them. The straight-through
// gradients must say the same as the difference of the true function.
TEST_P(FakeQuantized, agrees_with_the_true_function_where_weights_and_steps_grow_together) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor upstream_ND = at::randn(weight_ND.sizes());
  const at::Tensor gradient_ND = upstream_ND.clone();
  const at::Tensor of_steps_NG = fake_quantize_backward(gradient_ND, weight_ND, quantizer);
  const at::Tensor predicted = of_steps_NG.view({-1}) + (gradient_ND * weight_ND).view({-1, grid.group}).sum(1);
  constexpr double kFactor = 0.5;  // a power of two rounds nothing
  const FakeQuantizer smaller{quantizer.scheme, quantizer.log_steps_NG + std::log(kFactor)};
  const at::Tensor change = fake_quantize(weight_ND * kFactor, smaller, at::kFloat) / (kFactor - 1) -
                            fake_quantize(weight_ND, quantizer, at::kFloat) / (kFactor - 1);
  EXPECT_LE(relative_difference(predicted, (upstream_ND * change).view({-1, grid.group}).sum(1)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Schemes, FakeQuantized,
                         ::testing::Values(Scheme::kInt8, Scheme::kInt4Group16, Scheme::kInt4Group32,
                                           Scheme::kInt4Group128),
                         [](const auto& info) {
                           return quant::is_int4(info.param) ? "int4_" + std::to_string(quant::block_of(info.param))
                                                             : std::string("int8");
                         });

TEST(FakeQuantize, is_what_autograd_makes_of_the_formulas) {
  const Json cases = read_json(FATHOM_SOURCE_DIR "/tests/ops/golden/lsq.json");
  ASSERT_GE(cases.size(), 5u);
  for (const Json& each : cases) {
    const int64_t rows = each["rows"], columns = each["columns"], group = each["group"];
    const auto tensor = [&](const char* name, int64_t width) {
      return at::tensor(each[name].get<std::vector<double>>(), at::kDouble).view({rows, width});
    };
    const Scheme scheme = each["lowest"] == -127 ? Scheme::kInt8 : *quant::int4_of_group(group);
    const at::Tensor weight_ND = tensor("weight", columns).to(at::kFloat);
    const FakeQuantizer quantizer{scheme, tensor("log_steps", columns / group).to(at::kFloat)};
    EXPECT_LE(relative_difference(fake_quantize(weight_ND, quantizer, at::kFloat), tensor("out", columns)), 1e-6);
    const at::Tensor gradient_ND = tensor("upstream", columns).to(at::kFloat);
    const at::Tensor of_steps_NG = fake_quantize_backward(gradient_ND, weight_ND, quantizer);
    EXPECT_LE(relative_difference(gradient_ND, tensor("weight_gradient", columns)), 1e-6);
    EXPECT_LE(relative_difference(of_steps_NG, tensor("log_step_gradient", columns / group)), 1e-5);
  }
}

TEST(FakeQuantize, rounds_to_nearest_even) {
  const at::Tensor weight_ND =
      at::tensor({0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 6.5f, 7.5f, -8.5f}).repeat({1, 4}).view({1, 32});
  const FakeQuantizer quantizer{Scheme::kInt4Group32, at::zeros({1, 1})};
  const at::Tensor expected =
      at::tensor({0.0f, 2.0f, 2.0f, -0.0f, -2.0f, 6.0f, 7.0f, -8.0f}).repeat({1, 4}).view({1, 32});
  EXPECT_TRUE(at::equal(fake_quantize(weight_ND, quantizer, at::kFloat), expected));
}

TEST(FakeQuantize, has_a_step_for_zeros_and_none_for_NaN) {
  at::Tensor weight_ND = at::zeros({2, 32});
  weight_ND[1][3] = std::numeric_limits<float>::quiet_NaN();
  const FakeQuantizer quantizer = quantizer_of(Scheme::kInt4Group32, weight_ND);
  EXPECT_TRUE(at::equal(fake_quantize(weight_ND, quantizer, at::kFloat)[0], at::zeros({32})));
  EXPECT_TRUE(std::isfinite(quantizer.log_steps_NG[0].item<float>()));
  EXPECT_TRUE(std::isnan(quantizer.log_steps_NG[1].item<float>()));
}

TEST(FakeQuantizeTokens, rounds_each_by_itself_and_lets_gradients_through) {
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    at::Tensor x_TD = at::randn({9, 40});
    x_TD[4].zero_();
    x_TD[5].mul_(1000);
    x_TD = x_TD.to(type).set_requires_grad(true);
    const at::Tensor y_TD = fake_quantize_tokens(x_TD);
    const at::Tensor wide = x_TD.detach().to(at::kFloat), steps = wide.abs().amax(1, true) / 127;
    const at::Tensor expected = (wide / steps.clamp_min(1e-30)).round() * steps;
    EXPECT_TRUE(at::equal(y_TD.detach(), expected.to(type)));
    EXPECT_TRUE(at::equal(fake_quantize_tokens_by_operators(x_TD.detach()), y_TD.detach()));
    const at::Tensor upstream = at::randn({9, 40}).to(type);
    torch::autograd::backward({y_TD}, {upstream});
    EXPECT_TRUE(at::equal(x_TD.grad(), upstream));
  }
}

}  // namespace
}  // namespace fathom::ops::fake_quantize_test
