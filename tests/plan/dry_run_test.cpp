// The dry run against the ledger of the real CPU: not a byte apart, whatever the trainer is told to do.
#include "plan/dry_run.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/train/tiny.h"

namespace fathom::plan {
namespace {

using ledger::Component;
using train::testing::cpu_ledger;

struct Case {
  std::string name;
  config::RunConfig config;
  model::ModelShape shape;
  int threads = 1;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

model::ModelShape odd_shape(int which) {
  model::ModelShape shape = train::testing::tiny_shape();
  if (which == 1) {
    shape.vocab_size = 307;
    shape.hidden_size = 40;
    shape.intermediate_size = 91;
    shape.num_hidden_layers = 3;
    shape.num_attention_heads = 5;
    shape.num_key_value_heads = 1;
    shape.head_dim = 8;
    shape.tie_word_embeddings = true;
  }
  return shape;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const config::Method method : {config::Method::kFull, config::Method::kLora}) {
    for (const std::string precision : {"fp32", "autocast", "bf16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const int shape : {0, 1}) {
          for (const int threads : {1, 2}) {
            Case each;
            each.name = std::string(method == config::Method::kFull ? "full" : "lora") + "_" + precision +
                        (checkpointing ? "_checkpointing" : "") + "_shape" + std::to_string(shape) + "_threads" +
                        std::to_string(threads);
            each.shape = odd_shape(shape);
            each.threads = threads;
            config::RunConfig& config = each.config;
            config.random_init = true;
            config.method = method;
            config.bf16 = precision == "autocast";
            config.dtype = precision == "bf16" ? DType::kBF16 : DType::kF32;
            config.gradient_checkpointing = checkpointing;
            config.per_device_train_batch_size = 3;
            config.per_device_eval_batch_size = 2;
            config.gradient_accumulation_steps = shape + 1;
            config.num_train_epochs = 2;
            config.eval_strategy = config::Cadence::kEpoch;
            config.lora_dropout = shape == 0 ? 0.1 : 0;
            if (shape == 1) config.target_modules = {"all-linear"};
            cases.push_back(std::move(each));
          }
        }
      }
    }
  }
  return cases;
}

const std::vector<int64_t> kRagged = {17, 4, 33, 9, 50, 21, 3, 12, 41, 29, 6};

// The whole run for real: every step of every pass with its own ragged batches, an evaluation after each pass.
ledger::Memory measure(const config::RunConfig& config, const model::ModelShape& shape, const data::Dataset& dataset,
                       int64_t capacity_tokens) {
  ledger::Memory memory;
  cpu_ledger().label();
  train::Trainer trainer(config, shape, capacity_tokens, {at::kCPU, &cpu_ledger(), nullptr});
  trainer.model().initialise(1);
  memory.merge(trainer.loaded());
  train::StepOrder order(config, static_cast<int64_t>(dataset.examples.size()));
  std::vector<data::Batch> evaluation;
  for (const auto& rows :
       train::evaluation_rows(static_cast<int64_t>(dataset.examples.size()), config.per_device_eval_batch_size)) {
    evaluation.push_back(data::make_batch(dataset, rows, 0));
  }
  for (int64_t step = 1; step <= order.total_steps(); ++step) {
    std::vector<data::Batch> batches;
    for (const auto& rows : order.next()) batches.push_back(data::make_batch(dataset, rows, 0));
    memory.merge(trainer.step(batches, 1e-3).memory);
    if (step % order.steps_per_epoch() == 0) memory.merge(trainer.evaluate(evaluation).memory);
  }
  memory.merge(trainer.saving([] {}));
  return memory;
}

void expect_equal(const ledger::Memory& dry, const ledger::Memory& real) {
  EXPECT_EQ(dry.peak, real.peak);
  for (const Component component : ledger::kComponents) {
    EXPECT_EQ(dry.at_peak[component], real.at_peak[component]) << component_name(component) << " at the peak";
    EXPECT_EQ(dry.maximum[component], real.maximum[component]) << component_name(component) << ", its maximum";
  }
  for (const ledger::Phase phase : ledger::kPhases) {
    EXPECT_EQ(dry.phase(phase).peak, real.phase(phase).peak) << phase_name(phase);
    for (const Component component : ledger::kComponents) {
      EXPECT_EQ(dry.phase(phase).at_peak[component], real.phase(phase).at_peak[component])
          << component_name(component) << " at the peak of " << phase_name(phase);
      EXPECT_EQ(dry.phase(phase).end[component], real.phase(phase).end[component])
          << component_name(component) << " at the end of " << phase_name(phase);
    }
  }
}

class DryRunMatrix : public ::testing::TestWithParam<Case> {};

TEST_P(DryRunMatrix, EqualsTheLedgerToTheByte) {
  const Case& each = GetParam();
  at::set_num_threads(each.threads);
  cpu_ledger();
  const data::Dataset dataset = train::testing::random_dataset(kRagged, each.shape.vocab_size, 11);
  const Workload workload = make_workload(each.config, each.shape, train::maximal_steps(each.config, dataset),
                                          train::evaluation_shapes(each.config, dataset));
  const DryRun dry = dry_run_cpu(each.config, each.shape, nullptr, workload);
  const ledger::Memory real = measure(each.config, each.shape, dataset, workload.capacity_tokens);
  expect_equal(dry.memory, real);
  EXPECT_GT(real.peak, 0);
  EXPECT_LT(dry.steps_played, 40);
}

INSTANTIATE_TEST_SUITE_P(Cpu, DryRunMatrix, ::testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name; });

TEST(DryRun, OnlyTheMaximalStepsDecide) {
  const data::Dataset dataset = train::testing::random_dataset(kRagged, 101, 2);
  config::RunConfig config = train::testing::tiny_config();
  config.per_device_train_batch_size = 2;
  config.gradient_accumulation_steps = 3;
  config.num_train_epochs = 3;
  const model::ModelShape shape = train::testing::tiny_shape();
  const std::vector<train::StepShape> steps = train::step_shapes(config, dataset);
  const Workload pruned = make_workload(config, shape, train::maximal_shapes(steps), {});
  Workload whole = pruned;
  whole.steps = steps;
  EXPECT_LT(pruned.steps.size(), steps.size());
  EXPECT_EQ(dry_run_cpu(config, shape, nullptr, pruned).memory, dry_run_cpu(config, shape, nullptr, whole).memory);
}

}  // namespace
}  // namespace fathom::plan
