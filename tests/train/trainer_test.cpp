// The training step: accumulation, checkpointing and attention leave the mathematics alone; what is not finite stops
// the run.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using testing::tiny_config;
using testing::tiny_trainer;

// Ten times as many tokens in the longest example as in the shortest.
const std::vector<int64_t> kLengths = {4, 40, 7, 31, 12, 5, 22, 9};

std::vector<data::Batch> batches_of(const data::Dataset& dataset, int64_t rows_each) {
  std::vector<data::Batch> batches;
  for (int64_t row = 0; row < dataset.size(); row += rows_each) {
    std::vector<int64_t> rows;
    for (int64_t i = 0; i < rows_each; ++i) rows.push_back(row + i);
    batches.push_back(data::make_batch(dataset, rows, 0));
  }
  return batches;
}

// After the first step from zero moments, exp_avg = (1 - beta1) * gradient.
std::vector<at::Tensor> first_moments(Trainer& trainer) {
  std::vector<at::Tensor> moments;
  for (const auto& [name, tensor] : trainer.optimizer().state()) {
    if (name.rfind("exp_avg.", 0) == 0) moments.push_back(tensor.clone());
  }
  return moments;
}

double largest_relative_difference(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i] - b[i]).norm().item<double>() / b[i].norm().item<double>());
  }
  return largest;
}

// What no run trains is a part of a whole model, without which its folder could not be read.
TEST(Trainer, GivesConstantsBesideWeightsWhereItTrainsAll) {
  arch::Architecture architecture = testing::tiny_architecture();
  for (arch::LayerSpec& layer : architecture.layers) layer.scalar = true;
  const auto gives_scalar = [&](const config::RunConfig& config) {
    const auto trainer = tiny_trainer(config, 4096, architecture);
    EXPECT_EQ(std::ssize(trainer->parameters()) == std::ssize(trainer->model().parameters()),
              config.method == config::Method::kFull);
    const auto given = trainer->parameters();
    return std::ranges::any_of(given, [](const auto& each) { return each.first == "model.layers.1.layer_scalar"; });
  };
  config::RunConfig config = tiny_config();
  EXPECT_TRUE(gives_scalar(config));
  config.method = config::Method::kLora;
  EXPECT_FALSE(gives_scalar(config));
}

TEST(Trainer, AccumulationEqualsOneLargeBatch) {
  const data::Dataset dataset = testing::random_dataset(kLengths, 101, 3);
  const auto large = tiny_trainer(tiny_config()), accumulated = tiny_trainer(tiny_config());
  const std::vector<data::Batch> eight = batches_of(dataset, 8), two = batches_of(dataset, 2);
  const double loss_large = large->step(eight, 1e-3).loss, loss_accumulated = accumulated->step(two, 1e-3).loss;
  EXPECT_LT(std::abs(loss_large - loss_accumulated) / loss_large, 1e-6);
  EXPECT_LE(largest_relative_difference(first_moments(*accumulated), first_moments(*large)), 5e-6);
}

TEST(Trainer, TheMeanOfMeansIsAnotherLoss) {
  const data::Dataset dataset = testing::random_dataset(kLengths, 101, 3);
  const auto trainer = tiny_trainer(tiny_config());
  const double whole = trainer->evaluate(batches_of(dataset, 8)).loss;
  double mean_of_means = 0;
  for (const data::Batch& batch : batches_of(dataset, 2)) mean_of_means += trainer->evaluate({&batch, 1}).loss / 4;
  EXPECT_GT(std::abs(whole - mean_of_means) / whole, 1e-6) << "the test cannot tell the two apart";
  EXPECT_LT(std::abs(whole - trainer->evaluate(batches_of(dataset, 2)).loss) / whole, 1e-6);
}

// Micro-batches whose targets are masked: most of one, all but one of the next, all of another.
std::vector<data::Batch> masked_batches() {
  std::vector<data::Batch> batches = batches_of(testing::random_dataset(kLengths, 101, 3), 2);
  for (size_t i = 0; i < batches.size(); ++i) {
    data::Batch& batch = batches[i];
    batch.target_count = 0;
    for (size_t token = 0; token < batch.targets.size(); ++token) {
      const bool keeps = i == 0 ? token % 3 == 0 : i == 1 ? token == 5 : i == 2;
      if (!keeps) batch.targets[token] = data::kIgnored;
      batch.target_count += batch.targets[token] != data::kIgnored;
    }
  }
  return batches;
}

TEST(Trainer, ChunksLeaveTheLossAndTheGradientsAlone) {
  const std::vector<data::Batch> batches = masked_batches();
  ASSERT_EQ(batches[1].target_count, 1);
  ASSERT_EQ(batches[3].target_count, 0);
  for (const bool tied : {false, true}) {
    for (const auto method : {config::Method::kFull, config::Method::kLora}) {
      for (const bool checkpointing : {false, true}) {
        config::RunConfig config = tiny_config();
        config.method = method;
        config.gradient_checkpointing = checkpointing;
        arch::Architecture architecture = testing::tiny_architecture();
        architecture.tie_word_embeddings = tied;
        double loss = 0, evaluation = 0;
        std::vector<at::Tensor> moments;
        for (const int64_t chunk : {0, 1, 7, 1000}) {
          config.loss_chunk_size = chunk;
          Trainer trainer(arch::resolve(config, architecture), 4096,
                          Placement{at::kCPU, &testing::cpu_ledger(), nullptr});
          trainer.model().initialise(7);
          trainer.loaded();
          const double evaluated = trainer.evaluate(batches).loss, trained = trainer.step(batches, 1e-3).loss;
          if (chunk == 0) {
            loss = trained;
            evaluation = evaluated;
            moments = first_moments(trainer);
            continue;
          }
          EXPECT_NEAR(trained, loss, 1e-5 * loss) << "chunks of " << chunk;
          EXPECT_NEAR(evaluated, evaluation, 1e-5 * evaluation) << "chunks of " << chunk;
          EXPECT_LE(largest_relative_difference(first_moments(trainer), moments), 1e-5) << "chunks of " << chunk;
        }
      }
    }
  }
}

TEST(Trainer, AStepWithoutTargetsChangesNoGradient) {
  std::vector<data::Batch> batches = masked_batches();
  batches.erase(batches.begin(), batches.begin() + 3);
  const auto trainer = tiny_trainer(tiny_config());
  const StepResult result = trainer->step(batches, 1e-3);
  EXPECT_EQ(result.loss, 0);
  EXPECT_EQ(result.gradient_norm, 0);
}

TEST(Trainer, CheckpointingAndAttentionLeaveTheLossesAlone) {
  const data::Dataset dataset = testing::random_dataset(kLengths, 101, 5);
  const std::vector<data::Batch> batches = batches_of(dataset, 4);
  const auto losses = [&](bool checkpointing, config::Attention attention) {
    config::RunConfig config = tiny_config();
    config.gradient_checkpointing = checkpointing;
    config.attn_implementation = attention;
    const auto trainer = tiny_trainer(config);
    std::vector<double> result;
    for (int step = 0; step < 5; ++step) result.push_back(trainer->step(batches, 1e-2).loss);
    return result;
  };
  const std::vector<double> plain = losses(false, config::Attention::kFlash);
  EXPECT_EQ(plain, losses(true, config::Attention::kFlash)) << "recomputation must be bit-equal";
  EXPECT_LT(plain.back(), plain.front() - 0.5) << "a loss that does not move proves nothing";
  const std::vector<double> math = losses(false, config::Attention::kMath);
  EXPECT_EQ(math, losses(true, config::Attention::kMath));
  // FP32 on both sides: what differs is the order of sums in softmax, and five AdamW steps amplify it.
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(math[i], plain[i], 1e-4 * plain[i]);
}

TEST(Trainer, WhatIsNotFiniteIsNamed) {
  const data::Dataset dataset = testing::random_dataset({9, 9}, 101, 1);
  const auto trainer = tiny_trainer(tiny_config());
  const model::Parameter& broken = trainer->model().parameters()[3];
  {
    const at::NoGradGuard no_gradients;
    broken.tensor.view(-1)[0] = std::nan("");
  }
  try {
    trainer->step(batches_of(dataset, 2), 1e-3);
    FAIL() << "the step went through";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(broken.name));
  }
}

TEST(Trainer, EveryByteHasAComponentAndNothingStays) {
  const data::Dataset dataset = testing::random_dataset(kLengths, 101, 3);
  const auto trainer = tiny_trainer(tiny_config());
  const std::vector<data::Batch> batches = batches_of(dataset, 4);
  trainer->step(batches, 1e-3);
  const memory::Memory memory = trainer->step(batches, 1e-3).memory;
  using memory::Component;
  const memory::ComponentBytes end = memory.phase(memory::Phase::kOptimizerStep).end;
  EXPECT_EQ(memory.at_peak.total(), memory.peak);
  EXPECT_EQ(end[Component::kGradients], 0);
  EXPECT_EQ(end[Component::kActivations], 0);
  EXPECT_EQ(end[Component::kTemporaryBuffers], 0);
  int64_t elements = 0;
  for (const model::Parameter& parameter : trainer->model().parameters()) elements += parameter.tensor.numel();
  const arch::Architecture& architecture = trainer->model().architecture();
  const int64_t head = architecture.vocab_size * architecture.hidden_size;
  EXPECT_EQ(memory.maximum[Component::kGradients], 4 * (elements + head))
      << "all, and the head's of a later micro-batch, which is ready before the backward pass adds it";
  EXPECT_EQ(end[Component::kOptimizerStates], 8 * elements) << "two moments";
}

}  // namespace
}  // namespace fathom::train
