// The dry run of a run over a dataset: which steps it plays, and that they stand for all of them. That every setting is
// predicted to the byte is the memory matrix's to show.
#include "play/dry_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_value.h"
#include "base/split_mix.h"
#include "config/to_yaml.h"
#include "plan/estimate/analytic.h"
#include "play/make_plan.h"
#include "tests/play/matrix_run.h"
#include "tests/train/tiny.h"

namespace fathom::play::dry_run_test {
namespace {

const std::vector<int64_t> kRagged = {17, 4, 33, 9, 50, 21, 3, 12, 41, 29, 6};

config::RunConfig accumulating_config() {
  config::RunConfig config = train::testing::tiny_config();
  config.per_device_train_batch_size = 3;
  config.per_device_eval_batch_size = 2;
  config.gradient_accumulation_steps = 2;
  config.num_train_epochs = 2;
  config.eval_strategy = config::Cadence::kEpoch;
  return config;
}

// Every step of every pass for real, each with its own ragged batches, an evaluation after each pass.
memory::Memory measure(const config::RunConfig& config, const arch::Architecture& architecture,
                       const data::Dataset& dataset, const plan::Workload& workload) {
  memory::Memory memory;
  train::testing::cpu_ledger().label();
  train::Trainer trainer(arch::resolve(config, architecture),
                         {workload.capacity_tokens, workload.capacity_source_tokens},
                         {at::kCPU, &train::testing::cpu_ledger(), nullptr});
  trainer.model().reserve_positions(plan::longest_sequence(workload));
  trainer.model().initialise(1);
  memory.merge(trainer.loaded());
  schedule::StepOrder order(config, dataset);
  std::vector<data::Batch> evaluation;
  for (const auto& rows : schedule::evaluation_rows(config, dataset)) {
    evaluation.push_back(schedule::batch_of(config, dataset, rows, 0));
  }
  for (int64_t step = 1; step <= order.total_steps(); ++step) {
    std::vector<data::Batch> batches;
    for (const auto& rows : order.next()) batches.push_back(schedule::batch_of(config, dataset, rows, 0));
    memory.merge(trainer.step(batches, 1e-3).memory);
    if (step % order.steps_per_epoch() == 0) memory.merge(trainer.evaluate(evaluation).memory);
  }
  memory.merge(trainer.saving([] {}));
  return memory;
}

// Of a schedule: enough to play the whole run, too little for it.
constexpr int64_t kManyLayers = 1'000'000, kFewLayers = 1;

struct Compared {
  plan::Workload workload;
  DryRun dry;
  memory::Memory real;
};

// The whole run, played and measured.
Compared expect_equal_to_the_byte(const config::RunConfig& config, const arch::Architecture& architecture,
                                  const data::Dataset& dataset) {
  const plan::Workload workload = plan::make_workload(
      arch::resolve(config, architecture),
      schedule::make_schedule(arch::resolve(config, architecture), dataset, dataset, {}, kManyLayers));
  Compared compared{workload, dry_run_cpu(arch::resolve(config, architecture), nullptr, workload),
                    measure(config, architecture, dataset, workload)};
  EXPECT_THAT(testing::differences(compared.dry.memory, compared.real), ::testing::IsEmpty());
  EXPECT_TRUE(compared.dry.exact);
  EXPECT_GT(compared.real.peak, 0);
  return compared;
}

TEST(DryRun, EqualsARunOverADatasetToTheByte) {
  const config::RunConfig config = accumulating_config();
  const arch::Architecture architecture = train::testing::tiny_architecture();
  train::testing::cpu_ledger();
  const data::Dataset dataset = train::testing::random_dataset(kRagged, architecture.vocab_size, 11);
  const DryRun dry = expect_equal_to_the_byte(config, architecture, dataset).dry;

  const plan::Workload represented = plan::make_workload(
      arch::resolve(config, architecture),
      schedule::make_schedule(arch::resolve(config, architecture), dataset, dataset, {}, kFewLayers));
  const DryRun short_cut = dry_run_cpu(arch::resolve(config, architecture), nullptr, represented);
  EXPECT_THAT(testing::differences(short_cut.memory, dry.memory), ::testing::IsEmpty());
  EXPECT_FALSE(short_cut.exact);
}

// Prompts of any length before completions of any length: the longest batch is rarely the one with most targets.
data::Dataset prompts_and_completions(int64_t examples, int64_t vocabulary) {
  SplitMix64 random(5);
  std::vector<data::Example> drawn;
  for (int64_t i = 0; i < examples; ++i) {
    data::Example& example = drawn.emplace_back();
    const uint64_t prompt = 1 + random.below(60), completion = 1 + random.below(random.below(4) == 0 ? 50 : 6);
    for (uint64_t token = 0; token < prompt + completion; ++token) {
      example.ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocabulary))));
      example.labels.push_back(token < prompt ? data::kIgnored : example.ids.back());
    }
  }
  return data::Dataset(drawn);
}

TEST(DryRun, FindsTheMostTargetsOfADatasetToTheByte) {
  config::RunConfig config = accumulating_config();
  arch::Architecture architecture = train::testing::tiny_architecture();
  architecture.vocab_size = 4001;
  train::testing::cpu_ledger();
  const data::Dataset dataset = prompts_and_completions(60, architecture.vocab_size);
  for (const auto method : {config::Method::kFull, config::Method::kLora}) {
    for (const int64_t chunk : {0, 1, 33, 1024}) {
      config.method = method;
      config.loss_chunk_size = chunk;
      const plan::Workload workload = plan::make_workload(
          arch::resolve(config, architecture),
          schedule::make_schedule(arch::resolve(config, architecture), dataset, dataset, {}, kFewLayers));
      const DryRun dry = dry_run_cpu(arch::resolve(config, architecture), nullptr, workload);
      EXPECT_THAT(testing::differences(dry.memory, measure(config, architecture, dataset, workload)),
                  ::testing::IsEmpty())
          << "chunks of " << chunk;
    }
  }
}

arch::Architecture tiny_encoder_decoder(const char* feed_forward, bool tied, double dropout) {
  return arch::parse_architecture({{"model_type", "t5"},
                                   {"vocab_size", 101},
                                   {"d_model", 24},
                                   {"d_kv", 6},
                                   {"d_ff", 56},
                                   {"num_heads", 3},
                                   {"num_layers", 2},
                                   {"num_decoder_layers", 3},
                                   {"feed_forward_proj", feed_forward},
                                   {"tie_word_embeddings", tied},
                                   {"dropout_rate", dropout}},
                                  "tiny");
}

// Ragged sources and targets; the estimate's weights, gradients and states exactly.
TEST(DryRun, EqualsARunOfAnEncoderAndDecoderToTheByte) {
  train::testing::cpu_ledger();
  data::Dataset dataset = prompts_and_completions(23, 101);
  dataset.set_decoder_start(0);
  const config::RunConfig plain = accumulating_config();
  config::RunConfig lora = plain, nf4 = plain, checkpoints = plain, narrow = plain, whole = plain;
  lora.method = nf4.method = config::Method::kLora;
  nf4.load_in_4bit = true;
  nf4.target_modules = {"all-linear"};
  nf4.gradient_checkpointing = true;
  checkpoints.gradient_checkpointing = true;
  narrow.bf16 = true;
  whole.loss_chunk_size = 0;
  for (const config::RunConfig& config : {plain, lora, nf4, checkpoints, narrow, whole}) {
    for (const auto& architecture :
         {tiny_encoder_decoder("gated-gelu", false, 0), tiny_encoder_decoder("relu", true, 0.1)}) {
      SCOPED_TRACE(config::to_yaml(config) + architecture.family);
      const auto& [workload, dry, real] = expect_equal_to_the_byte(config, architecture, dataset);
      plan::Target target = cpu_target();
      const plan::Analytic analytic = plan::estimate_analytic(arch::resolve(config, architecture), target, workload);
      for (const auto component :
           {memory::Component::kWeights, memory::Component::kOptimizerStates, memory::Component::kGradients}) {
        EXPECT_EQ(analytic.maximum[component], real.maximum[component]) << memory::component_name(component);
      }
      EXPECT_NEAR(static_cast<double>(analytic.peak) / static_cast<double>(real.peak), 1, 0.1);
    }
  }
}

TEST(DryRun, OnlyTheMaximalStepsDecide) {
  const data::Dataset dataset = train::testing::random_dataset(kRagged, 101, 2);
  config::RunConfig config = train::testing::tiny_config();
  config.per_device_train_batch_size = 2;
  config.gradient_accumulation_steps = 3;
  config.num_train_epochs = 3;
  const arch::Architecture architecture = train::testing::tiny_architecture();
  const std::vector<schedule::StepShape> steps = schedule::step_shapes(config, dataset);
  const plan::Workload pruned = plan::make_workload(arch::resolve(config, architecture),
                                                    schedule::imagined_schedule(schedule::maximal_shapes(steps), {}));
  const plan::Workload whole =
      plan::make_workload(arch::resolve(config, architecture), schedule::imagined_schedule(steps, {}));
  EXPECT_LT(pruned.steps.size(), steps.size());
  EXPECT_EQ(dry_run_cpu(arch::resolve(config, architecture), nullptr, pruned).memory,
            dry_run_cpu(arch::resolve(config, architecture), nullptr, whole).memory);
}

}  // namespace
}  // namespace fathom::play::dry_run_test
