// Linear layers of one input: together they make what they make alone, forward and backward.
#include "ops/linear/shared_input.h"

#include <ATen/core/grad_mode.h>

#include <array>

#include "tests/ops/compare.h"

namespace fathom::ops::shared_input_test {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr std::array<int64_t, 3> kOut = {7, 5, 9}, kRank = {3, 2, 4};
constexpr double kScaling = 2.5;

// x; then of each layer a weight, a bias, A and B.
Tensors draw_all(at::ScalarType type) {
  Tensors in = {draw({13, 20}, type)};
  for (size_t i = 0; i < 3; ++i) {
    in.insert(in.end(), {draw({kOut[i], 20}, type), draw({kOut[i]}, type), draw({kRank[i], 20}, at::kFloat),
                         draw({kOut[i], kRank[i]}, at::kFloat)});
  }
  return in;
}

at::Tensor formula(const Tensors& in) {
  Tensors made;
  for (size_t i = 1; i < in.size(); i += 4) {
    made.push_back(at::linear(in[0], in[i], in[i + 1]) +
                   kScaling * at::linear(at::linear(in[0], in[i + 2]), in[i + 3]));
  }
  return at::cat(made, 1);
}

std::array<Linear, 3> layers_of(const Tensors& in, double dropout = 0) {
  std::array<Linear, 3> layers;
  for (size_t i = 0; i < 3; ++i) {
    const at::Tensor* its = &in[1 + 4 * i];
    layers[i] = Linear{its[0], its[1], LoraAdapter{its[2], its[3], kScaling, dropout}};
  }
  return layers;
}

LinearInput shared_by(const std::array<Linear, 3>& layers, const LinearInput& input, const ComputeScope& compute) {
  return shared(input, {&layers[0], &layers[1], &layers[2]}, compute, true);
}

Tensors outputs_of(const std::array<Linear, 3>& layers, const LinearInput& input, const ComputeScope& compute) {
  Tensors made;
  for (const Linear& layer : layers) made.push_back(linear(input, layer, compute, true));
  return made;
}

// Copies of the A's, end to end in memory.
void cast_end_to_end(std::array<Linear, 3>& layers) {
  const at::NoGradGuard no_gradients;
  Tensors all;
  for (const Linear& layer : layers) all.push_back(layer.adapter->a_RD);
  const std::vector<at::Tensor> parts = at::cat(all).split_with_sizes({kRank[0], kRank[1], kRank[2]});
  for (size_t i = 0; i < 3; ++i) layers[i].adapter->a_cast_RD = parts[i];
}

class SharedInputOf : public ::testing::TestWithParam<at::ScalarType> {};

TEST_P(SharedInputOf, GivesWhatEachLayerMakes) {
  for (const bool end_to_end : {false, true}) {
    at::manual_seed(4);
    const Operator ours = [&](const Tensors& in) {
      const ComputeScope compute(at::kCPU, GetParam());
      std::array<Linear, 3> layers = layers_of(in);
      if (end_to_end && GetParam() == at::kFloat) cast_end_to_end(layers);
      return at::cat(outputs_of(layers, shared_by(layers, LinearInput(in[0]), compute), compute), 1);
    };
    expect_equal(ours, formula, draw_all(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, SharedInputOf, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return at::toString(info.param); });

struct Wanted {
  int needed = 0;            // bits: x, and of each layer what it has
  bool reads_apart = false;  // another reads x too
  size_t outputs = 3;        // of the first so many layers
  double dropout = 0;
};

Tensors gradients_of(const Tensors& values, const Wanted& wanted, bool together) {
  Tensors in;
  for (size_t i = 0; i < values.size(); ++i) {
    in.push_back(values[i].clone().set_requires_grad((wanted.needed >> i & 1) != 0));
  }
  const ComputeScope compute(at::kCPU, at::kFloat);
  const std::array<Linear, 3> layers = layers_of(in, wanted.dropout);
  at::manual_seed(17);
  const LinearInput input(in[0]), read = together ? shared_by(layers, input, compute) : input;
  Tensors made = outputs_of(layers, read, compute);
  made.resize(wanted.outputs);
  if (wanted.reads_apart) made.push_back(read.tensor());
  torch::autograd::backward({at::cat(made, 1).square().sum()}, {});
  Tensors gradients;
  for (const at::Tensor& each : in) gradients.push_back(each.grad());
  return gradients;
}

// One of a layer that no gradient reaches may be 0 instead of none.
void expect_same_gradients(const Tensors& values, const Wanted& wanted) {
  const Tensors expected = gradients_of(values, wanted, false), made = gradients_of(values, wanted, true);
  for (size_t i = 0; i < made.size(); ++i) {
    if (expected[i].defined()) {
      ASSERT_TRUE(made[i].defined()) << wanted.needed << ", " << i;
      EXPECT_LE(relative_difference(made[i], expected[i]), tolerance(at::kFloat)) << wanted.needed << ", " << i;
    } else if (made[i].defined()) {
      EXPECT_TRUE(made[i].eq(0).all().item<bool>()) << wanted.needed << ", " << i;
    }
  }
}

constexpr int kAll = (1 << 13) - 1, kAdapters = 0b1100110011000, kOneA = 0b1000, kWeights = 0b0001000100010;

TEST(SharedInput, GivesEachItsGradientWhoeverNeedsOne) {
  at::manual_seed(5);
  const Tensors values = draw_all(at::kFloat);
  for (const int needed : {kAll, kAll - 1, kAdapters, kAdapters + 1, kOneA, kOneA + 1, kWeights, kWeights + 1, 1}) {
    for (const double dropout : {0.0, 0.25}) {
      expect_same_gradients(values, {.needed = needed, .dropout = dropout});
      if ((needed & 1) != 0) expect_same_gradients(values, {.needed = needed, .reads_apart = true, .dropout = dropout});
    }
  }
}

TEST(SharedInput, TakesLayersThatNoGradientReaches) {
  at::manual_seed(6);
  const Tensors values = draw_all(at::kFloat);
  for (const int needed : {kAll, kAdapters, kWeights}) {
    for (const size_t outputs : {1U, 2U}) expect_same_gradients(values, {.needed = needed, .outputs = outputs});
  }
}

TEST(SharedInput, JoinsAdaptersThatReadTheInputAsItIs) {
  const ComputeScope compute(at::kCPU, at::kFloat);
  at::manual_seed(7);
  Tensors in = draw_all(at::kFloat);
  for (at::Tensor& each : in) each.set_requires_grad(true);
  const auto joined = [&](double dropout, const at::Tensor& x_TD) {
    const std::array<Linear, 3> layers = layers_of(in, dropout);
    return shared_by(layers, LinearInput(x_TD), compute).shared()->place_of(*layers[1].adapter);
  };
  EXPECT_EQ(joined(0, in[0]), 1U);
  EXPECT_EQ(joined(0.1, in[0]), std::nullopt);
  EXPECT_EQ(joined(0, in[0].to(at::kBFloat16)), std::nullopt);
  std::array<Linear, 3> layers = layers_of(in);
  cast_end_to_end(layers);
  const LinearInput read = shared_by(layers, LinearInput(in[0]), compute);
  EXPECT_EQ(read.shared()->a_SD().data_ptr(), layers[0].adapter->a_cast_RD.data_ptr()) << "nothing is copied";
}

// Passes without gradients, as those of checkpoints and of answers, have the bits of those with them.
TEST(SharedInput, HasTheSameBitsWithoutGradients) {
  const ComputeScope compute(at::kCPU, at::kFloat);
  at::manual_seed(8);
  Tensors in = draw_all(at::kFloat);
  for (at::Tensor& each : in) each.set_requires_grad(true);
  const std::array<Linear, 3> layers = layers_of(in);
  const auto run = [&] { return outputs_of(layers, shared_by(layers, LinearInput(in[0]), compute), compute); };
  const Tensors with = run();
  const at::NoGradGuard no_gradients;
  const Tensors without = run();
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(without[i].equal(with[i])) << i;
}

TEST(SharedInput, IsTheInputItselfWhereNothingIsTrainedOrJoined) {
  const Tensors in = draw_all(at::kFloat);
  std::array<Linear, 3> layers = layers_of(in);
  for (Linear& layer : layers) layer.adapter.reset();
  const ComputeScope compute(at::kCPU, at::kFloat);
  EXPECT_EQ(shared_by(layers, LinearInput(in[0]), compute).shared(), nullptr);
}

}  // namespace
}  // namespace fathom::ops::shared_input_test
