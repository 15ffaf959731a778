// Linear layers: LoRA's formula in every combination of types, dropout, and casts of weights under autocast.
#include "ops/linear/linear.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <memory>

#include "ops/dropout.h"
#include "tests/ops/compare.h"

namespace fathom::ops::linear_test {
namespace {

Linear make(const std::vector<at::Tensor>& in) { return {in[1], {}, LoraAdapter{in[2], in[3], 2.5, 0}}; }

at::Tensor formula(const std::vector<at::Tensor>& in) {
  return at::linear(in[0], in[1]) + 2.5 * at::linear(at::linear(in[0], in[2]), in[3]);
}

class LoraOn : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(LoraOn, base_adds_scaled_adapter_and_keeps_the_type) {
  at::manual_seed(4);
  const at::ScalarType type = GetParam();
  const Operator ours = [type](const std::vector<at::Tensor>& in) {
    const ComputeScope compute(at::kCPU, type);
    at::Tensor y = linear(LinearInput(in[0]), make(in), compute, true);
    EXPECT_EQ(y.scalar_type(), type);
    return y;
  };
  expect_equal(ours, formula,
               {draw({13, 20}, type), draw({7, 20}, type), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat)});
}

TEST_P(LoraOn, a_bias_is_added_once_and_takes_the_sum_of_gradients) {
  at::manual_seed(4);
  const at::ScalarType type = GetParam();
  const Operator ours = [type](const std::vector<at::Tensor>& in) {
    Linear layer = make(in);
    layer.bias_N = in[4];
    return linear(LinearInput(in[0]), layer, ComputeScope(at::kCPU, type), true);
  };
  const Operator reference = [](const std::vector<at::Tensor>& in) { return formula(in) + in[4]; };
  expect_equal(ours, reference,
               {draw({13, 20}, type), draw({7, 20}, type), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat),
                draw({7}, type)});
}

// Twice its input. What reaches that waits in `met` where it was made together with the output.
struct Twice : torch::autograd::Function<Twice> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const std::shared_ptr<at::Tensor>& met) {
    context->saved_data["met"] = c10::IValue(reinterpret_cast<int64_t>(met.get()));
    return x * 2;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& /*overwritten*/) {
    return {*reinterpret_cast<at::Tensor*>(context->saved_data["met"].toInt()), at::Tensor()};
  }
};

TEST_P(LoraOn, an_input_may_be_made_again_in_place_of_its_gradient) {
  at::manual_seed(4);
  const at::ScalarType type = GetParam();
  const auto met = std::make_shared<at::Tensor>();
  const Operator ours = [&](const std::vector<at::Tensor>& in) {
    const at::Tensor x_TD = in[0].detach();
    const auto again = [] { return at::Tensor(); };
    const auto meet = [x_TD, met](const at::Tensor& grad_TD) {
      *met = grad_TD * 2;
      return grad_TD.copy_(x_TD).mul_(2);
    };
    return linear(LinearInput(Twice::apply(in[0], met), again, meet), make(in), ComputeScope(at::kCPU, type), true);
  };
  const Operator reference = [](const std::vector<at::Tensor>& in) {
    return formula({in[0] * 2, in[1], in[2], in[3]});
  };
  expect_equal(ours, reference,
               {draw({13, 20}, type), draw({7, 20}, type), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat)});
}

INSTANTIATE_TEST_SUITE_P(Types, LoraOn, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

TEST(Lora, under_autocast_equals_the_cast_formula) {
  at::manual_seed(4);
  const Operator ours = [](const std::vector<at::Tensor>& in) {
    const AutocastScope autocast(at::kCPU, true);
    const ComputeScope compute(at::kCPU, at::kFloat);
    EXPECT_EQ(compute.dtype(), at::kBFloat16);
    return linear(LinearInput(in[0].to(at::kBFloat16)), make(in), compute, true);
  };
  expect_equal(
      ours, formula,
      {draw({13, 20}, at::kFloat), draw({7, 20}, at::kFloat), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat)});
}

// Bit 0 to 4: whether x, weight, bias, A and B need a gradient. Whoever does gets what it gets when all do.
TEST(Linear, gives_the_same_gradients_whoever_needs_one) {
  for (const bool autocasts : {false, true}) {
    at::manual_seed(4);
    const std::vector<at::Tensor> values = {draw({13, 20}, at::kFloat), draw({7, 20}, at::kFloat),
                                            draw({7}, at::kFloat), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat)};
    std::vector<at::Tensor> expected;
    for (int needed = 31; needed > 0; --needed) {
      std::vector<at::Tensor> in;
      for (int i = 0; i < 5; ++i) in.push_back(values[i].clone().set_requires_grad((needed >> i & 1) != 0));
      const AutocastScope autocast(at::kCPU, autocasts);
      const ComputeScope compute(at::kCPU, at::kFloat);
      const Linear layer{in[1], in[2], LoraAdapter{in[3], in[4], 2.5, 0}};
      const at::Tensor y_TN = linear(LinearInput(in[0].to(compute.dtype())), layer, compute, true);
      torch::autograd::backward({y_TN.to(at::kFloat).square().sum()}, {});
      if (expected.empty()) {
        for (const at::Tensor& each : in) expected.push_back(each.grad());
      }
      for (int i = 0; i < 5; ++i) {
        const bool needs = (needed >> i & 1) != 0;
        ASSERT_EQ(in[i].grad().defined(), needs) << needed << ", " << i;
        EXPECT_TRUE(!needs || in[i].grad().equal(expected[i])) << needed << ", " << i;
      }
    }
  }
}

// Nobody reads the weight itself, whether its casts are kept or not.
TEST(Linear, takes_a_cast_that_is_there) {
  at::manual_seed(5);
  const at::Tensor x_TD = draw({13, 20}, at::kBFloat16), weight_ND = draw({7, 20}, at::kFloat);
  for (const bool keeps : {true, false}) {
    keep_casts(keeps);
    std::vector<at::Tensor> results[2];
    for (const bool is_there : {false, true}) {
      Linear layer{weight_ND.clone(), {}, {}};
      if (is_there) {
        layer.cast_ND = weight_ND.to(at::kBFloat16);
        layer.weight_ND.fill_(std::numeric_limits<float>::quiet_NaN());
      }
      layer.weight_ND.set_requires_grad(true);
      const at::Tensor leaf_TD = x_TD.clone().set_requires_grad(true);
      const AutocastScope autocast(at::kCPU, true);
      const at::Tensor y_TN = linear(LinearInput(leaf_TD), layer, ComputeScope(at::kCPU, at::kFloat), true);
      torch::autograd::backward({y_TN.to(at::kFloat).square().sum()}, {});
      results[is_there] = {y_TN, leaf_TD.grad(), layer.weight_ND.grad()};
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(results[1][i].equal(results[0][i])) << i;
    EXPECT_EQ(results[1][2].scalar_type(), at::kFloat);
  }
  keep_casts(true);
}

// The same draw over ones tells what was left out.
TEST(Lora, drops_the_same_elements_backward) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto with_seed = [&](const std::vector<at::Tensor>& in, double p) {
      at::manual_seed(17);
      Linear layer = make(in);
      layer.adapter->dropout = p;
      return linear(LinearInput(in[0]), layer, ComputeScope(at::kCPU, type), true);
    };
    at::manual_seed(17);
    const at::Tensor mask_TD = Dropout().draw(at::ones({13, 20}), 0.25);
    const Operator ours = [&](const std::vector<at::Tensor>& in) { return with_seed(in, 0.25); };
    const Operator reference = [&](const std::vector<at::Tensor>& in) {
      return at::linear(in[0], in[1]) + 2.5 * at::linear(at::linear(in[0] * mask_TD.to(at::kDouble), in[2]), in[3]);
    };
    at::manual_seed(4);
    expect_equal(ours, reference,
                 {draw({13, 20}, type), draw({7, 20}, type), draw({3, 20}, at::kFloat), draw({7, 3}, at::kFloat)});
  }
}

TEST(ComputeScope, keeps_casts_of_trained_weights_until_autocast_ends) {
  const at::Tensor trained = at::ones({4, 4}).set_requires_grad(true), frozen = at::ones({4, 4});
  const AutocastScope autocast(at::kCPU, true);
  const ComputeScope compute(at::kCPU, at::kFloat);
  EXPECT_EQ(compute.weight(trained).data_ptr(), compute.weight(trained).data_ptr());
  const at::Tensor first = compute.weight(frozen), second = compute.weight(frozen);
  EXPECT_NE(first.data_ptr(), second.data_ptr());
}

TEST(ComputeScope, is_the_storage_type_without_autocast_and_restores_it) {
  const ComputeScope plain(at::kCPU, at::kFloat);
  EXPECT_FALSE(plain.autocast());
  EXPECT_EQ(plain.dtype(), at::kFloat);
  const AutocastScope autocast(at::kCPU, true);
  {
    const ComputeScope compute(at::kCPU, at::kFloat);
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  }
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Dropout, is_off_outside_training) {
  const ComputeScope compute(at::kCPU, at::kFloat);
  Linear layer{at::zeros({2, 5}), {}, LoraAdapter{at::ones({1, 5}), at::ones({2, 1}), 1, 0.5}};
  const LinearInput input(at::ones({64, 5}));
  EXPECT_TRUE(linear(input, layer, compute, false).eq(5).all().item<bool>());
  EXPECT_FALSE(linear(input, layer, compute, true).eq(5).all().item<bool>());
}

}  // namespace
}  // namespace fathom::ops::linear_test
