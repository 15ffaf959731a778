// The gate of gpt-oss's experts against its formula by LibTorch's own clamps: values, gradients, and what lies on a
// bound.
#include "ops/clamped_gate.h"

#include "tests/ops/compare.h"

namespace fathom::ops::clamped_gate_test {
namespace {

constexpr ClampedGate kGate = {1.702, 1.5};

at::Tensor formula(const at::Tensor& gate_up_RG) {
  const at::Tensor gate = gate_up_RG.slice(1, 0, std::nullopt, 2).clamp_max(kGate.limit),
                   up = gate_up_RG.slice(1, 1, std::nullopt, 2).clamp(-kGate.limit, kGate.limit);
  return (up + 1) * (gate * at::sigmoid(gate * kGate.slope));
}

class ClampedGateOf : public ::testing::TestWithParam<at::ScalarType> {};

// More than a block of numbers, most of them within the bounds.
TEST_P(ClampedGateOf, is_its_formula_with_its_gradient) {
  at::manual_seed(31);
  const at::Tensor x = draw({37, 2 * 61}, GetParam()), grad = draw({37, 61}, GetParam());
  at::Tensor leaf = x.to(at::kDouble).set_requires_grad(true);
  const at::Tensor expected = formula(leaf);
  torch::autograd::backward({expected}, {grad.to(at::kDouble)});
  EXPECT_LE(relative_difference(clamped_gate(kGate, x), expected), tolerance(GetParam()));
  EXPECT_LE(relative_difference(clamped_gate_backward(kGate, grad, x), leaf.grad()), tolerance(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Types, ClampedGateOf,
                         ::testing::Values(at::kFloat, at::kBFloat16, at::kHalf, at::kDouble),  // the last by operators
                         [](const auto& info) { return std::string(at::toString(info.param)); });

TEST(ClampedGate, lets_gradients_through_on_its_bounds_alone) {
  const at::Tensor x = at::tensor({1.5F, 1.5F, 1.6F, -1.5F, -9.0F, 1.6F, 0.5F, -1.6F}).view({1, 8});
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    const at::Tensor grad = clamped_gate_backward(kGate, at::ones({1, 4}, type), x.to(type));
    const at::Tensor passes = grad.ne(0).view({-1}).to(at::kInt);
    EXPECT_TRUE(passes.equal(at::tensor({1, 1, 0, 1, 1, 0, 1, 0}, at::kInt))) << grad;
  }
}

}  // namespace
}  // namespace fathom::ops::clamped_gate_test
