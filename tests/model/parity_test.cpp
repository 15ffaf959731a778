// Parity with transformers and PEFT in FP32, for every family: logits, every gradient, ten losses of training, a greedy
// continuation.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <tuple>

#include "optim/adamw.h"
#include "optim/gradient_norm.h"
#include "tests/model/golden.h"

namespace fathom::model {
namespace {

// Sums in another order differ by a few hundred roundings of 6e-8; ten AdamW steps let them grow.
constexpr double kTolerance = 1e-4;

double logits_difference(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual - expected).abs().max() / expected.abs().max()).item<double>();
}

// shape, LoRA or full, attention, checkpointing
using Case = std::tuple<std::string, bool, config::Attention, bool>;

class Parity : public ::testing::TestWithParam<Case> {
 protected:
  Golden golden_{std::get<0>(GetParam())};
  bool lora_ = std::get<1>(GetParam());
  std::string prefix_ = lora_ ? "lora." : "";

  Decoder make() const {
    ModelOptions options;
    options.attention = std::get<2>(GetParam());
    options.gradient_checkpointing = std::get<3>(GetParam());
    return golden_.make(options, lora_);
  }

  void expect_gradients(const Decoder& model) const {
    size_t compared = 0;
    for (const auto& [name, gradient] : gradients_of(model)) {
      const auto expected = golden_.tensors.find(prefix_ + "gradient." + name);
      ASSERT_NE(expected, golden_.tensors.end()) << name;
      ASSERT_TRUE(gradient.defined()) << name;
      EXPECT_LE(relative_difference(gradient, expected->second.view(gradient.sizes())), kTolerance) << name;
      ++compared;
    }
    size_t expected_count = 0;
    for (const auto& [name, tensor] : golden_.tensors) expected_count += name.starts_with(prefix_ + "gradient.");
    EXPECT_EQ(compared, expected_count);
  }
};

TEST_P(Parity, logits) {
  Decoder model = make();
  const at::NoGradGuard no_gradients;
  const at::Tensor& expected = golden_.tensors.at(prefix_ + "logits");
  ASSERT_GE(standard_deviation(expected), 1);
  EXPECT_LE(logits_difference(model.forward(golden_.inputs), expected), kTolerance);
}

// Of all logits at once, and of chunks of those rows that count, the last not whole.
TEST_P(Parity, gradients) {
  for (const int64_t chunk_rows : {0, 7}) {
    SCOPED_TRACE(chunk_rows);
    Decoder model = make();
    torch::autograd::backward({golden_.loss(model, chunk_rows)}, {});
    expect_gradients(model);
  }
}

TEST_P(Parity, ten_losses) {
  Decoder model = make();
  std::vector<optim::OptimizedParameter> parameters;
  for (const Parameter& p : model.trained_parameters()) parameters.push_back({p.name, p.tensor, p.decays});
  optim::AdamWOptions options;
  options.weight_decay = 0.01;
  optim::AdamW optimizer(parameters, options, nullptr);
  const std::vector<double>& expected = lora_ ? golden_.lora_losses : golden_.losses;
  ASSERT_GE(expected.front() - expected.back(), 0.5);
  for (size_t step = 0; step < expected.size(); ++step) {
    const at::Tensor loss = golden_.loss(model, /*chunk_rows=*/5);
    EXPECT_NEAR(loss.item<double>(), expected[step], kTolerance) << "step " << step + 1;
    torch::autograd::backward({loss}, {});
    std::vector<at::Tensor> gradients;
    gradients.reserve(parameters.size());
    for (const auto& parameter : parameters) gradients.push_back(parameter.tensor.grad());
    optimizer.step(1e-3, optim::gradient_norm(gradients, 1).factor);
    for (const auto& parameter : parameters) parameter.tensor.mutable_grad().reset();
  }
}

class Continuation : public ::testing::TestWithParam<std::tuple<std::string, config::Attention>> {};

TEST_P(Continuation, is_the_same) {
  const Golden golden(std::get<0>(GetParam()));
  ModelOptions options;
  options.attention = std::get<1>(GetParam());
  Decoder model = golden.make(options, false);
  model.set_training(false);
  constexpr int64_t kPrompt = 5, kWanted = 50;
  const auto continued = [&](Inputs inputs) {
    KeyValueCache cache(golden.architecture, 1, kPrompt + kWanted, at::kCPU, at::kFloat);
    std::vector<int64_t> ids;
    while (std::ssize(ids) < kWanted) {
      inputs = model.forward(inputs, cache).argmax(-1, true);
      ids.push_back(inputs.ids_BS.item<int64_t>());
    }
    return ids;
  };
  if (golden.continuations.empty()) {
    EXPECT_EQ(continued(golden.ids_BS.narrow(0, 0, 1).narrow(1, 0, kPrompt)), golden.continuation);
  }
  for (size_t row = 0; row < golden.continuations.size(); ++row) {
    const auto index = static_cast<int64_t>(row);
    Inputs inputs(golden.ids_BS.narrow(0, index, 1).narrow(1, 0, 1));
    inputs.source_BS = golden.inputs.source_BS.narrow(0, index, 1).narrow(1, 0, golden.source_lengths[row]);
    EXPECT_EQ(continued(inputs), golden.continuations[row]) << "row " << row;
    inputs.source_BS = golden.inputs.source_BS.narrow(0, index, 1);
    inputs.source_hidden_BS = golden.inputs.source_hidden_BS.narrow(0, index, 1);
    EXPECT_EQ(continued(inputs), golden.continuations[row]) << "row " << row << ", padded";
  }
}

INSTANTIATE_TEST_SUITE_P(Transformers, Continuation,
                         ::testing::Combine(::testing::ValuesIn(golden_shapes()),
                                            ::testing::Values(config::Attention::kFlash, config::Attention::kMath)),
                         [](const auto& info) {
                           return std::get<0>(info.param) +
                                  (std::get<1>(info.param) == config::Attention::kFlash ? "_flash" : "_math");
                         });

std::string case_of_parity(const ::testing::TestParamInfo<Case>& info) {
  const auto& [shape, lora, attention, checkpointing] = info.param;
  return shape + (lora ? "_lora" : "_full") + (attention == config::Attention::kFlash ? "_flash" : "_math") +
         (checkpointing ? "_checkpointing" : "");
}

INSTANTIATE_TEST_SUITE_P(Transformers, Parity,
                         ::testing::Combine(::testing::ValuesIn(golden_shapes()), ::testing::Bool(),
                                            ::testing::Values(config::Attention::kFlash, config::Attention::kMath),
                                            ::testing::Bool()),
                         case_of_parity);

TEST(ParityFailsWith, a_wrong_rope_theta) {
  for (const std::string& name : golden_shapes()) {
    const Golden golden(name);
    if (golden.architecture.rotaries().empty()) continue;
    arch::Architecture architecture = golden.architecture;
    for (arch::LayerSpec& layer : architecture.layers) {
      if (layer.attends() && layer.attention().rotary) layer.attention().rotary->theta *= 1.1;
    }
    Decoder model = golden.make({}, false, architecture);
    const at::NoGradGuard no_gradients;
    EXPECT_GT(logits_difference(model.forward(golden.ids_BS), golden.tensors.at("logits")), kTolerance) << name;
  }
}

TEST(ParityFailsWith, positions_that_are_not_stretched) {
  for (const std::string name : {"llama_stretched", "llama_stretched_biased", "qwen2_stretched", "qwen3_stretched"}) {
    const Golden golden(name);
    arch::Architecture architecture = golden.architecture;
    for (arch::LayerSpec& layer : architecture.layers) {
      if (layer.attention().rotary) layer.attention().rotary->scaling = std::monostate();
    }
    ASSERT_NE(architecture, golden.architecture) << name;
    Decoder model = golden.make({}, false, architecture);
    const at::NoGradGuard no_gradients;
    EXPECT_GT(logits_difference(model.forward(golden.ids_BS), golden.tensors.at("logits")), kTolerance) << name;
  }
}

TEST(ParityFailsWith, other_buckets_of_distances) {
  for (const std::string name : {"t5_flan", "t5_far", "t5_one"}) {
    const Golden golden(name);
    arch::Architecture architecture = golden.architecture;
    architecture.relative->max_distance /= 2;
    architecture.relative->max_distance += 1;
    Decoder model = golden.make({}, false, architecture);
    const at::NoGradGuard no_gradients;
    EXPECT_GT(logits_difference(model.forward(golden.inputs), golden.tensors.at("logits")), kTolerance) << name;
  }
}

TEST(ParityFailsWith, padding_that_is_seen) {
  for (const std::string name : {"t5_flan", "t5_first", "t5_one"}) {
    const Golden golden(name);
    Decoder model = golden.make({}, false);
    const at::NoGradGuard no_gradients;
    Inputs inputs = golden.inputs;
    inputs.source_hidden_BS.reset();
    EXPECT_GT(logits_difference(model.forward(inputs), golden.tensors.at("logits")), kTolerance) << name;
  }
}

TEST(ParityFailsWith, a_window_of_another_size) {
  for (const std::string name : {"mistral_windowed", "qwen2_windowed"}) {
    const Golden golden(name);
    for (const int64_t change : {-1, 1}) {
      arch::Architecture architecture = golden.architecture;
      for (arch::LayerSpec& layer : architecture.layers) {
        if (layer.attention().window > 0) layer.attention().window += change;
      }
      Decoder model = golden.make({}, false, architecture);
      const at::NoGradGuard no_gradients;
      EXPECT_GT(logits_difference(model.forward(golden.ids_BS), golden.tensors.at("logits")), kTolerance) << name;
    }
  }
}

}  // namespace
}  // namespace fathom::model
