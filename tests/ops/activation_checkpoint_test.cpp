// Checkpointing: bit-equal gradients, captured parameters, frozen inputs, repeated randomness and autocast.
#include "ops/activation_checkpoint.h"

#include "ops/autocast.h"
#include "ops/dropout.h"
#include "tests/ops/compare.h"

namespace fathom::ops::activation_checkpoint_test {
namespace {

struct Outcome {
  at::Tensor output, input_gradient, weight_gradient;
  bool operator==(const Outcome& other) const {
    const bool same_input = input_gradient.defined() == other.input_gradient.defined() &&
                            (!input_gradient.defined() || input_gradient.equal(other.input_gradient));
    return output.equal(other.output) && same_input && weight_gradient.equal(other.weight_gradient);
  }
};

Outcome outcome(bool checkpointed, bool input_trained, double p, bool autocast) {
  at::manual_seed(21);
  const at::Tensor x = at::randn({12, 16}).set_requires_grad(input_trained);
  const at::Tensor weights = at::randn({3, 16, 16}).set_requires_grad(true);
  const at::Tensor anchor = at::empty({0}).set_requires_grad(true);
  int runs = 0;
  auto segment = [&](int layer) {
    return [&, layer](const std::vector<at::Tensor>& inputs) {
      const at::Tensor& in = inputs.front();
      ++runs;
      const ComputeScope compute(at::kCPU, at::kFloat);
      const at::Tensor weight = compute.weight(weights[layer]);
      return Dropout().draw(at::tanh(at::linear(in.to(compute.dtype()), weight)), p).to(at::kFloat);
    };
  };
  at::Tensor y;
  {
    const AutocastScope scope(at::kCPU, autocast);
    y = x;
    for (int i = 0; i < 3; ++i)
      y = checkpointed ? checkpoint(segment(i), {y}, anchor, {nullptr, p > 0}) : segment(i)({y});
  }
  const at::Tensor before = at::rand({1});
  torch::autograd::backward({y.sum()}, {});
  EXPECT_EQ(runs, checkpointed ? 6 : 3);
  // The generator goes on as if nothing had been repeated.
  EXPECT_FALSE(at::rand({1}).equal(before));
  return {y.detach(), x.grad(), weights.grad()};
}

TEST(Checkpoint, changes_no_bit) {
  for (const bool input_trained : {true, false}) {
    for (const double p : {0.0, 0.3}) {
      for (const bool autocast : {false, true}) {
        EXPECT_TRUE(outcome(true, input_trained, p, autocast) == outcome(false, input_trained, p, autocast))
            << input_trained << p << autocast;
      }
    }
  }
}

TEST(Checkpoint, draws_the_same_numbers_after_the_backward_pass) {
  auto next = [](bool checkpointed) {
    outcome(checkpointed, true, 0.3, false);
    return at::rand({4});
  };
  EXPECT_TRUE(next(true).equal(next(false)));
}

TEST(Checkpoint, keeps_only_the_input) {
  const at::Tensor x = at::randn({8, 8}).set_requires_grad(true), anchor = at::empty({0}).set_requires_grad(true);
  c10::weak_intrusive_ptr<c10::StorageImpl> inner(c10::intrusive_ptr<c10::StorageImpl>{});
  const Segment segment = [&](const std::vector<at::Tensor>& inputs) {
    const at::Tensor middle = at::tanh(inputs.front());
    inner = c10::weak_intrusive_ptr<c10::StorageImpl>(
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(middle.storage().unsafeGetStorageImpl()));
    return middle * middle;
  };
  const at::Tensor y = checkpoint(segment, {x}, anchor, {});
  EXPECT_TRUE(inner.expired());
  EXPECT_TRUE(y.requires_grad());
}

// Two segments that share an input: its gradients add up, and one that needs none gets none.
TEST(Checkpoint, takes_several_inputs) {
  const auto gradients = [](bool checkpointed) {
    at::manual_seed(5);
    const at::Tensor x = at::randn({4, 3}).set_requires_grad(true), shared = at::randn({4, 3}).set_requires_grad(true);
    const at::Tensor frozen = at::randn({4, 3}), anchor = at::empty({0}).set_requires_grad(true);
    const Segment segment = [](const std::vector<at::Tensor>& each) { return at::tanh(each[0] * each[1]) + each[2]; };
    const auto run = [&](const at::Tensor& stream) {
      const std::vector<at::Tensor> inputs = {stream, shared, frozen};
      return checkpointed ? checkpoint(segment, inputs, anchor, {}) : segment(inputs);
    };
    torch::autograd::backward({run(run(x)).sum()}, {});
    EXPECT_FALSE(frozen.grad().defined());
    return std::pair(x.grad(), shared.grad());
  };
  const auto [of_x, of_shared] = gradients(true);
  const auto [of_x_without, of_shared_without] = gradients(false);
  EXPECT_TRUE(of_x.equal(of_x_without));
  EXPECT_TRUE(of_shared.equal(of_shared_without));
}

}  // namespace
}  // namespace fathom::ops::activation_checkpoint_test
