// Layers that come from elsewhere compute the same, bit for bit; two of them are there at a time.
#include "model/offloaded_layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "arch/parameter_table.h"
#include "arch/run.h"
#include "model/decoder.h"

namespace fathom::model {
namespace {

constexpr int64_t kLayers = 5;

arch::Architecture architecture() {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 101;
  architecture.hidden_size = 64;
  architecture.layers.assign(
      kLayers,
      {.mixer = arch::Attention{.heads = 4, .key_value_heads = 2, .head_dim = 16, .rotary = arch::Rotary{.width = 16}},
       .feed_forward = {.width = 96}});
  architecture.initializer_range = 0.2;
  return architecture;
}

config::RunConfig lora() {
  config::RunConfig run;
  run.method = config::Method::kLora;
  run.target_modules = {"all-linear"};
  run.dtype = DType::kF32;
  return run;
}

class Model {
 public:
  Model(const config::RunConfig& run, bool offloads)
      : layers_(
            at::kCPU, [this](int64_t bytes) { return host_.emplace_back(at::zeros({bytes}, at::kByte)); }, ledger_) {
    ModelOptions options;
    options.parameters = arch::resolve(run, architecture()).settings;
    options.gradient_checkpointing = run.gradient_checkpointing;
    options.ledger = &ledger_;
    if (offloads) options.units = &layers_;
    decoder_.emplace(architecture(), options);
    if (offloads) layers_.adopt(decoder_->parameters());
    decoder_->initialise(7);
    decoder_->set_training(true);
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : decoder_->trained_parameters()) parameter.tensor.add_(0.01);
  }

  at::Tensor loss() {
    const at::Tensor ids = at::arange(2 * 13, at::kLong).mul(17).remainder(101).view({2, 13});
    return decoder_->loss(ids, {{}, ids.view({-1}), 26, 0, 1, true});
  }
  // Of the adapters, after a backward pass.
  std::vector<at::Tensor> gradients() {
    std::vector<at::Tensor> gradients;
    torch::autograd::backward({loss()}, {});
    for (const Parameter& parameter : decoder_->trained_parameters()) {
      gradients.push_back(parameter.tensor.grad().clone());
      parameter.tensor.mutable_grad().reset();
    }
    return gradients;
  }
  Decoder& decoder() { return *decoder_; }
  OffloadedLayers& layers() { return layers_; }
  const std::vector<at::Tensor>& host() const { return host_; }

 private:
  ledger::Ledger ledger_;
  std::vector<at::Tensor> host_;
  OffloadedLayers layers_;
  std::optional<Decoder> decoder_;
};

TEST(OffloadedLayers, LeaveTheGradientsAlone) {
  for (const bool checkpoints : {false, true}) {
    for (bool config::RunConfig::*load_in :
         {&config::RunConfig::load_in_8bit, &config::RunConfig::load_in_4bit, &config::RunConfig::packing}) {
      config::RunConfig run = lora();
      run.gradient_checkpointing = checkpoints;
      run.*load_in = true;  // of packing, which no model knows, the base as it is
      Model here(run, false), there(run, true);
      for (int pass = 0; pass < 2; ++pass) {
        const std::vector<at::Tensor> expected = here.gradients(), gradients = there.gradients();
        ASSERT_EQ(gradients.size(), expected.size());
        for (size_t i = 0; i < gradients.size(); ++i) EXPECT_TRUE(at::equal(gradients[i], expected[i])) << i;
        const at::NoGradGuard no_gradients;  // an evaluation in between
        EXPECT_TRUE(at::equal(here.loss(), there.loss()));
      }
    }
  }
}

TEST(OffloadedLayers, AreThereTwoAtATime) {
  Model model(lora(), true);
  EXPECT_EQ(model.host().size(), static_cast<size_t>(kLayers));
  int64_t bytes = 0;
  for (const at::Tensor& layer : model.host()) bytes += layer.numel();
  EXPECT_EQ(model.layers().host_bytes(), bytes);
  const auto are_there = [&] {
    int64_t layers = 0;
    for (const Parameter& parameter : model.decoder().parameters()) {
      if (!parameter.name.ends_with("q_proj.weight")) continue;
      layers += parameter.tensor.storage().nbytes() > 0 ? 1 : 0;
    }
    return layers;
  };
  const at::Tensor loss = model.loss();
  EXPECT_EQ(are_there(), 2);
  torch::autograd::backward({loss}, {});
  EXPECT_EQ(are_there(), 2);
}

// What is trained, and what belongs to no layer, stays on the device.
TEST(OffloadedLayers, LeaveTheRestWhereItIs) {
  Model model(lora(), true);
  for (const Parameter& parameter : model.decoder().parameters()) {
    const bool of_layer = parameter.unit > 0 && parameter.unit <= kLayers;
    const auto kept = model.layers().kept(parameter.tensor);
    ASSERT_EQ(kept.size(), 1U);
    const bool is_here =
        kept.front().bytes.storage().unsafeGetStorageImpl() == parameter.tensor.storage().unsafeGetStorageImpl();
    EXPECT_EQ(is_here, parameter.trained || !of_layer) << parameter.name;
  }
}

TEST(OffloadedLayers, AreReadAndWrittenOneByOne) {
  Model model(lora(), true);
  int64_t number = 0;
  for (const Parameter& parameter : model.decoder().parameters()) {
    model.layers().fill(parameter.tensor, at::full(parameter.tensor.sizes(), ++number));
  }
  model.layers().close();
  number = 0;
  for (const Parameter& parameter : model.decoder().parameters()) {
    model.layers().open(parameter.tensor);
    EXPECT_TRUE(parameter.tensor.detach().eq(++number).all().item<bool>()) << parameter.name;
  }
  model.layers().close();
}

}  // namespace
}  // namespace fathom::model
