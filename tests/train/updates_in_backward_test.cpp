// Updates within the backward pass make the same steps as after it, bit for bit, and hold fewer gradients meanwhile.
#include "train/updates_in_backward.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "base/error.h"
#include "memory/component.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using testing::tiny_config;

data::Batch batch() { return data::make_batch(testing::random_dataset({31, 12, 22}, 101, 3), {0, 1, 2}, 0); }

std::unique_ptr<Trainer> trainer_of(config::RunConfig config, bool in_backward, bool tied) {
  config.optimizer_in_backward = in_backward;
  arch::Architecture architecture = testing::tiny_architecture();
  architecture.tie_word_embeddings = tied;
  auto trainer = std::make_unique<Trainer>(arch::resolve(config, architecture), 4096,
                                           Placement{at::kCPU, &testing::cpu_ledger(), nullptr});
  trainer->model().initialise(7);
  trainer->loaded();
  return trainer;
}

struct Kind {
  const char* name;
  std::function<void(config::RunConfig&)> set;
};

const Kind kKinds[] = {
    {"adamw", [](config::RunConfig& /*run*/) {}},
    {"adamw_8bit, stochastic rounding",
     [](config::RunConfig& run) {
       run.optim = config::Optimizer::kAdamW8bit;
       run.dtype = DType::kBF16;
       run.master_weights = config::MasterWeights::kStochastic;
     }},
    {"adamw_bf16, masters",
     [](config::RunConfig& run) {
       run.optim = config::Optimizer::kAdamWBf16;
       run.dtype = DType::kBF16;
       run.master_weights = config::MasterWeights::kFp32;
     }},
    {"lion, autocast",
     [](config::RunConfig& run) {
       run.optim = config::Optimizer::kLion;
       run.bf16 = true;
     }},
    {"adafactor, checkpoints",
     [](config::RunConfig& run) {
       run.optim = config::Optimizer::kAdafactor;
       run.gradient_checkpointing = true;
     }},
    {"sgd, all logits at once",
     [](config::RunConfig& run) {
       run.optim = config::Optimizer::kSgd;
       run.loss_chunk_size = 0;
     }},
    {"adamw, checkpoints, autocast",
     [](config::RunConfig& run) {
       run.bf16 = true;
       run.gradient_checkpointing = true;
     }},
    {"LoRA",
     [](config::RunConfig& run) {
       run.method = config::Method::kLora;
       run.dtype = DType::kF32;
     }},
};

TEST(UpdatesInBackward, MakeTheSameStepsBitForBit) {
  const data::Batch three = batch();
  for (const Kind& kind : kKinds) {
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(std::string(kind.name) + (tied ? ", tied" : ""));
      config::RunConfig config = tiny_config();
      config.weight_decay = 0.1;
      kind.set(config);
      const auto after = trainer_of(config, false, tied), within = trainer_of(config, true, tied);
      for (int step = 0; step < 3; ++step) {
        const StepResult expected = after->step({&three, 1}, 1e-2), result = within->step({&three, 1}, 1e-2);
        ASSERT_EQ(result.loss, expected.loss);
        ASSERT_EQ(result.gradient_norm, expected.gradient_norm);
      }
      const auto expected = after->parameters(), parameters = within->parameters();
      ASSERT_EQ(parameters.size(), expected.size());
      for (size_t i = 0; i < parameters.size(); ++i) {
        EXPECT_TRUE(at::equal(parameters[i].second, expected[i].second)) << parameters[i].first;
        EXPECT_FALSE(parameters[i].second.grad().defined());
      }
      for (size_t i = 0; i < after->optimizer().state().size(); ++i) {
        const auto& [name, state] = within->optimizer().state()[i];
        EXPECT_TRUE(at::equal(state, after->optimizer().state()[i].second)) << name;
      }
    }
  }
}

// Of 2 layers with matrices of up to 24 x 56 numbers, an embedding and a head of 101 x 24.
TEST(UpdatesInBackward, HoldTheGradientsOfTheLargestAlone) {
  const data::Batch three = batch();
  const auto peak = [&](bool in_backward) {
    const auto trainer = trainer_of(tiny_config(), in_backward, false);
    return trainer->step({&three, 1}, 1e-2).memory.maximum[memory::Component::kGradients];
  };
  EXPECT_LE(peak(true), 3 * 101 * 24 * 4);
  EXPECT_GT(peak(false), 2 * 101 * 24 * 4 + 2 * 4 * 24 * 24 * 4);
}

TEST(UpdatesInBackward, BeginOnceTheCallerIsReady) {
  const data::Batch three = batch();
  const auto trainer = trainer_of(tiny_config(), true, false);
  const at::Tensor weight = trainer->parameters().front().second;
  const at::Tensor before = weight.clone();
  bool called = false;
  trainer->step({&three, 1}, 1e-2, [&] {
    called = true;
    EXPECT_TRUE(at::equal(weight, before));
  });
  EXPECT_TRUE(called);
  EXPECT_FALSE(at::equal(weight, before));
}

TEST(UpdatesInBackward, WhatIsNotFiniteEndsTheRun) {
  const data::Batch three = batch();
  const auto trainer = trainer_of(tiny_config(), true, false);
  trainer->parameters().front().second.detach().fill_(std::numeric_limits<double>::infinity());
  EXPECT_THAT(
      [&] {
        trainer->step({&three, 1}, 1e-2);
      },
      ::testing::ThrowsMessage<Error>(::testing::AllOf(::testing::HasSubstr("the loss is not finite"),
                                                       ::testing::HasSubstr("lower learning_rate"),
                                                       ::testing::HasSubstr("in the place of optimizer_in_backward"))));
}

}  // namespace
}  // namespace fathom::train
