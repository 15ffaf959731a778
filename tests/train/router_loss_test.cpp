// What routers add to the loss of a step: nothing of padding, the mean of the micro-batches, and nothing in
// evaluations.
#include <gtest/gtest.h>

#include "tests/train/tiny.h"

namespace fathom::train {
namespace {

using testing::cpu_ledger;
using testing::random_dataset;
using testing::tiny_config;

arch::Architecture with_experts(double coefficient) {
  arch::Architecture architecture = testing::tiny_architecture();
  architecture.family = "Qwen3MoeForCausalLM";
  for (arch::LayerSpec& layer : architecture.layers) {
    layer.feed_forward.width = 13;
    layer.feed_forward.experts = arch::Experts{.count = 5, .per_token = 2, .normalised = true};
  }
  architecture.router_aux_loss_coef = coefficient;
  return architecture;
}

std::unique_ptr<Trainer> trainer_with(double coefficient) {
  auto trainer = std::make_unique<Trainer>(arch::resolve(tiny_config(), with_experts(coefficient)), 4096,
                                           Placement{at::kCPU, &cpu_ledger(), nullptr});
  trainer->model().initialise(7);
  trainer->loaded();
  return trainer;
}

double loss_of(double coefficient, const std::vector<data::Batch>& batches) {
  return trainer_with(coefficient)->step(batches, 1e-3).loss;
}

TEST(RouterLoss, is_added_and_grows_with_its_coefficient) {
  const data::Dataset dataset = random_dataset({9, 17, 12}, 101, 3);
  const std::vector<data::Batch> batches = {data::make_batch(dataset, {0, 1, 2}, 0)};
  const double without = loss_of(0, batches), once = loss_of(0.1, batches), twice = loss_of(0.2, batches);
  // As transformers counts it, an even router adds the number of experts of a token.
  EXPECT_NEAR(once - without, 0.2, 0.1);
  EXPECT_NEAR(twice - without, 2 * (once - without), 1e-5);
}

TEST(RouterLoss, does_not_count_padding) {
  const data::Dataset dataset = random_dataset({9, 17, 12}, 101, 3);
  const auto with_padding_to = [&](int64_t multiple) {
    return loss_of(0.5, {data::make_batch(dataset, {0, 1, 2}, 0, multiple)});
  };
  EXPECT_NEAR(with_padding_to(0), with_padding_to(64), 1e-5);
}

TEST(RouterLoss, of_a_step_is_the_mean_of_its_micro_batches) {
  const data::Dataset dataset = random_dataset({9, 17}, 101, 3);
  const data::Batch batch = data::make_batch(dataset, {0, 1}, 0);
  EXPECT_NEAR(loss_of(0.5, {batch, batch, batch}), loss_of(0.5, {batch}), 1e-5);
}

TEST(RouterLoss, is_told_beside_the_loss_that_has_it) {
  const data::Dataset dataset = random_dataset({9, 17, 12}, 101, 3);
  const std::vector<data::Batch> batches = {data::make_batch(dataset, {0, 1}, 0), data::make_batch(dataset, {2}, 0)};
  const StepResult without = trainer_with(0)->step(batches, 1e-3), with = trainer_with(0.5)->step(batches, 1e-3);
  EXPECT_EQ(without.router_loss, 0);
  EXPECT_GT(with.router_loss, 0);
  EXPECT_NEAR(with.router_loss, with.loss - without.loss, 1e-5);
}

TEST(RouterLoss, is_no_part_of_an_evaluation) {
  const data::Dataset dataset = random_dataset({9, 17}, 101, 3);
  const std::vector<data::Batch> batches = {data::make_batch(dataset, {0, 1}, 0)};
  EXPECT_EQ(trainer_with(0.5)->evaluate(batches).loss, trainer_with(0)->evaluate(batches).loss);
}

}  // namespace
}  // namespace fathom::train
