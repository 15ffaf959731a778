// Training in FP16: what is skipped, what a skipped step leaves alone, and why BF16 needs none of it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "train/trainer.h"

namespace fathom::train {
namespace {

using testing::cpu_ledger;
using ::testing::HasSubstr;
using testing::tiny_architecture;
using testing::tiny_config;

data::Batch random_batch(int64_t rows, int64_t length) {
  const data::Dataset dataset = testing::random_dataset(std::vector<int64_t>(static_cast<size_t>(rows), length),
                                                        tiny_architecture().vocab_size, 3);
  std::vector<int64_t> all;
  for (int64_t row = 0; row < rows; ++row) all.push_back(row);
  return data::make_batch(dataset, all, 0);
}

enum class Type { kFp32, kBf16, kFp16 };

config::RunConfig config_in(Type type) {
  config::RunConfig config = tiny_config();
  config.bf16 = type == Type::kBf16;
  config.fp16 = type == Type::kFp16;
  return config;
}

std::unique_ptr<Trainer> trainer_of(const config::RunConfig& config, const arch::Architecture& architecture) {
  auto trainer =
      std::make_unique<Trainer>(arch::resolve(config, architecture), 4096, Placement{at::kCPU, &cpu_ledger(), nullptr});
  trainer->model().initialise(7);
  trainer->loaded();
  return trainer;
}

optim::LossScale scale_of(double value) {
  return optim::LossScale::from_json({{"value", value}, {"good_steps", 0}, {"skipped_steps", 0}});
}

// The first moments after one step, (1 - beta1) times the gradients, end to end.
at::Tensor all_moments_of(Trainer& trainer) {
  std::vector<at::Tensor> moments;
  for (const auto& [name, tensor] : trainer.optimizer().state()) {
    if (name.starts_with("exp_avg.")) moments.push_back(tensor.flatten().to(at::kDouble));
  }
  return at::cat(moments);
}

at::Tensor moments_after_a_step(const config::RunConfig& config, const arch::Architecture& architecture, double scale) {
  const auto trainer = trainer_of(config, architecture);
  if (trainer->loss_scale()) trainer->set_loss_scale(scale_of(scale));
  const data::Batch batch = random_batch(60, 64);
  EXPECT_FALSE(trainer->step({&batch, 1}, 1e-3).skipped);
  return all_moments_of(*trainer);
}

double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual - expected).norm() / expected.norm()).item<double>();
}

TEST(LossScale, WhateverItIsItsGradientsAreThoseOfFp32) {
  for (const auto method : {config::Method::kFull, config::Method::kLora}) {
    for (const double clipped : {0.0, 0.01}) {
      config::RunConfig fp32 = config_in(Type::kFp32), fp16 = config_in(Type::kFp16);
      fp32.method = fp16.method = method;
      fp32.max_grad_norm = fp16.max_grad_norm = clipped;
      const at::Tensor expected = moments_after_a_step(fp32, tiny_architecture(), 1);
      for (const double scale : {64.0, 1024.0}) {
        EXPECT_LE(relative_difference(moments_after_a_step(fp16, tiny_architecture(), scale), expected), 5e-3) << scale;
      }
    }
  }
}

TEST(LossScale, AStepWhoseGradientsOverflowLeavesEverythingAsItWas) {
  const auto trainer = trainer_of(config_in(Type::kFp16), tiny_architecture());
  trainer->set_loss_scale(scale_of(0x1p40));
  std::vector<at::Tensor> before;
  for (const model::Parameter& parameter : trainer->model().parameters()) before.push_back(parameter.tensor.clone());
  const data::Batch batch = random_batch(4, 20);
  bool updated = false;
  const StepResult result = trainer->step({&batch, 1}, 1e-3, [&] { updated = true; });
  EXPECT_TRUE(result.skipped);
  EXPECT_TRUE(std::isfinite(result.loss)) << "the loss itself is not scaled";
  EXPECT_FALSE(updated);
  EXPECT_EQ(trainer->optimizer().steps(), 0);
  EXPECT_EQ(trainer->loss_scale()->value(), 0x1p39);
  EXPECT_EQ(trainer->loss_scale()->skipped_steps(), 1);
  EXPECT_EQ(all_moments_of(*trainer).abs().max().item<double>(), 0);
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(trainer->model().parameters()[i].tensor.equal(before[i])) << trainer->model().parameters()[i].name;
    EXPECT_FALSE(trainer->model().parameters()[i].tensor.grad().defined());
  }
}

// One micro-batch of two overflows: the whole step is skipped.
TEST(LossScale, AccumulatedGradientsAreSkippedTogether) {
  const auto trainer = trainer_of(config_in(Type::kFp16), tiny_architecture());
  std::vector<data::Batch> batches = {random_batch(4, 20), random_batch(4, 20)};
  EXPECT_FALSE(trainer->step(batches, 1e-3).skipped);
  const at::Tensor before = all_moments_of(*trainer);
  trainer->set_loss_scale(scale_of(0x1p40));
  batches[1].target_count = 0;
  std::fill(batches[1].targets.begin(), batches[1].targets.end(), data::kIgnored);
  EXPECT_TRUE(trainer->step(batches, 1e-3).skipped);
  EXPECT_EQ(trainer->optimizer().steps(), 1);
  EXPECT_TRUE(all_moments_of(*trainer).equal(before));
}

TEST(LossScale, WhereNoScaleHelpsTheRunEndsByName) {
  const auto trainer = trainer_of(config_in(Type::kFp16), tiny_architecture());
  trainer->model().parameters().front().tensor.detach().fill_(NAN);
  const data::Batch batch = random_batch(2, 8);
  for (double scale = optim::LossScale::kFirst; scale > 1; scale /= 2) {
    EXPECT_TRUE(trainer->step({&batch, 1}, 1e-3).skipped) << scale;
  }
  EXPECT_EQ(trainer->loss_scale()->skipped_steps(), 16);
  try {
    trainer->step({&batch, 1}, 1e-3);
    FAIL() << "a loss that is not finite at a scale of 1 was accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the weights of model.embed_tokens.weight are not finite"));
    EXPECT_THAT(error.what(), HasSubstr("the loss scale is down to 1: write bf16: true instead of fp16: true"));
  }
}

TEST(LossScale, IsForFp16Alone) {
  EXPECT_FALSE(trainer_of(config_in(Type::kBf16), tiny_architecture())->loss_scale());
  EXPECT_FALSE(trainer_of(config_in(Type::kFp32), tiny_architecture())->loss_scale());
  config::RunConfig frozen = config_in(Type::kFp32);
  frozen.method = config::Method::kLora;
  frozen.dtype = DType::kF16;
  EXPECT_TRUE(trainer_of(frozen, tiny_architecture())->loss_scale())
      << "its products are in FP16 without autocast, too";
}

TEST(LossScale, WeightsThatAreTrainedAreNotStoredInFp16) {
  config::RunConfig config = config_in(Type::kFp16);
  config.method = config::Method::kLora;
  config.dtype = DType::kF16;
  config.modules_to_save = {"lm_head"};
  try {
    trainer_of(config, tiny_architecture());
    FAIL() << "a head in FP16 was trained";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("modules_to_save would train lm_head.weight in float16"));
  }
}

// Gate and up of this decoder multiply to more than 65504: FP16 has no such number, BF16 reaches as far as FP32.
std::unique_ptr<Trainer> trainer_with_large_activations(Type type) {
  auto trainer = trainer_of(config_in(type), tiny_architecture());
  const at::NoGradGuard no_gradients;
  for (const model::Parameter& parameter : trainer->model().parameters()) {
    const bool grows = parameter.name.ends_with("gate_proj.weight") || parameter.name.ends_with("up_proj.weight");
    if (grows) parameter.tensor.mul_(2000);
    if (parameter.name.ends_with("down_proj.weight")) parameter.tensor.div_(1e5);
  }
  return trainer;
}

TEST(Steadiness, ActivationsBeyondFp16sRangeEndItAndLeaveBf16Alone) {
  const data::Batch batch = random_batch(4, 32);
  std::vector<double> last;
  for (const Type type : {Type::kFp32, Type::kBf16}) {
    const auto trainer = trainer_with_large_activations(type);
    const double first = trainer->step({&batch, 1}, 1e-3).loss;
    for (int step = 0; step < 20; ++step) last.push_back(trainer->step({&batch, 1}, 1e-3).loss);
    EXPECT_LT(last.back(), 0.9 * first);
  }
  EXPECT_NEAR(last[39], last[19], 0.02 * last[19]) << "BF16 learns as FP32 does";
  const auto fp16 = trainer_with_large_activations(Type::kFp16);
  for (int step = 0; step < 16; ++step) {
    const StepResult result = fp16->step({&batch, 1}, 1e-3);
    EXPECT_FALSE(std::isfinite(result.loss));
    EXPECT_TRUE(result.skipped);
  }
  EXPECT_EQ(fp16->optimizer().steps(), 0) << "it learns nothing";
  EXPECT_THROW(fp16->step({&batch, 1}, 1e-3), Error);
}

// Small weights make small gradients: below 2^-24, 6e-8, FP16 has nothing but zero.
TEST(Steadiness, SmallGradientsVanishInFp16WithoutAScaleAndStayWithIt) {
  arch::Architecture architecture = tiny_architecture();
  architecture.initializer_range = 0.0005;
  const at::Tensor expected = moments_after_a_step(config_in(Type::kFp32), architecture, 1);
  const at::Tensor plain = moments_after_a_step(config_in(Type::kFp16), architecture, 1);
  const at::Tensor scaled = moments_after_a_step(config_in(Type::kFp16), architecture, optim::LossScale::kFirst);
  const auto share_of_zeros = [&](const at::Tensor& moments) {
    return moments.eq(0).logical_and(expected.ne(0)).sum().item<double>() / expected.ne(0).sum().item<double>();
  };
  EXPECT_GT(share_of_zeros(plain), 0.5);
  EXPECT_LT(share_of_zeros(scaled), 0.05);
  EXPECT_GT(relative_difference(plain, expected), 0.1);
  EXPECT_LT(relative_difference(scaled, expected), 1e-3);
}

class LossScaleLoop : public testing::SmallRun {};

TEST_F(LossScaleLoop, ResumedAnywhereItEndsInTheSameBits) {
  for (const bool lora : {false, true}) {
    const auto configure = [&](const std::string& name) {
      config::RunConfig config = this->config(name + (lora ? "-lora" : ""));
      config.fp16 = true;
      config.save_steps = 1;
      if (lora) config.method = config::Method::kLora;
      if (lora) config.dtype = DType::kF16;
      return config;
    };
    const std::string weights = lora ? "adapter_model.safetensors" : "model.safetensors";
    std::vector<StepReport> whole_reports;
    const RunResult whole = run(configure("whole"), -1, &whole_reports);
    if (!lora) {
      EXPECT_LT(whole_reports.back().metrics.loss, whole_reports.front().metrics.loss - 1);
      EXPECT_GT(whole.loss_scale->skipped_steps(), 0) << "a step that was skipped is resumed over, too";
    }
    const std::string expected = hash_file(std::filesystem::path(configure("whole").output_dir) / weights);
    for (const int64_t stop_after : {2, 7}) {
      config::RunConfig config = configure("stopped" + std::to_string(stop_after));
      config.resume_from_checkpoint = "auto";
      EXPECT_THROW(run(config, stop_after), testing::Stop);
      const RunResult resumed = run(config);
      EXPECT_EQ(resumed.loss_scale->to_json(), whole.loss_scale->to_json());
      EXPECT_EQ(hash_file(std::filesystem::path(config.output_dir) / weights), expected) << stop_after;
    }
  }
}

}  // namespace
}  // namespace fathom::train
