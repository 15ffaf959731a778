// Compares an operator with its reference: outputs and the gradients of every input.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <functional>
#include <vector>

namespace fathom::ops {

// Of results that are rounded once: FP32 sums in another order; BF16 keeps 8 bits, and its gradients are sums of
// rounded ones.
inline double tolerance(at::ScalarType type) {
  if (type == at::kDouble) return 1e-9;
  return type == at::kFloat ? 2e-6 : 8e-3;
}

inline double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const at::Tensor a = actual.to(at::kDouble), e = expected.to(at::kDouble);
  return ((a - e).norm() / (e.norm() + 1e-30)).item<double>();
}

using Operator = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

struct Results {
  at::Tensor output;
  std::vector<at::Tensor> gradients;
};

// The output, and the gradients under a fixed random upstream gradient that every type holds exactly.
inline Results run(const Operator& op, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const at::Tensor& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  Results results;
  results.output = op(leaves);
  at::manual_seed(99);
  const at::Tensor upstream = at::randn(results.output.sizes(), at::kFloat).to(at::kBFloat16);
  torch::autograd::backward({results.output}, {upstream.to(results.output.scalar_type())});
  for (const at::Tensor& leaf : leaves) results.gradients.push_back(leaf.grad());
  return results;
}

// reference: computed from the same inputs, widened to double. cancelled: times the tolerance a gradient may be off
// that is a difference of large sums.
inline void expect_equal(const Operator& op, const Operator& reference, const std::vector<at::Tensor>& inputs,
                         double cancelled = 1) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(input.to(at::kDouble));
  const Results actual = run(op, inputs);
  const Results expected = run(reference, wide);
  EXPECT_LE(relative_difference(actual.output, expected.output), tolerance(actual.output.scalar_type()));
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(actual.gradients[i].defined());
    EXPECT_EQ(actual.gradients[i].scalar_type(), inputs[i].scalar_type());
    EXPECT_LE(relative_difference(actual.gradients[i], expected.gradients[i]),
              cancelled * std::max(tolerance(actual.output.scalar_type()), tolerance(inputs[i].scalar_type())))
        << "gradient of input " << i;
  }
}

inline at::Tensor draw(at::IntArrayRef shape, at::ScalarType type, double spread = 1) {
  return (at::randn(shape, at::kFloat) * spread).to(type);
}

}  // namespace fathom::ops
