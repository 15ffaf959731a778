// Remedies: what they are called, that their settings make the run they are reckoned for, and what that run saves.
#include "plan/advice/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "config/load.h"
#include "config/precision.h"
#include "plan/advice/techniques.h"
#include "plan/estimate/analytic.h"
#include "tests/plan/llama_8b.h"

namespace fathom::plan::remedies_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::llama_8b;
using ::testing::Not;
using ::testing::StartsWith;

Target h100() {
  Target target;
  target.device = config::Device::kCuda;
  target.name = "H100";
  target.compute_capability = "9.0";
  target.attention_kernel = "memory-efficient attention";
  return target;
}

Workload batches(int64_t rows, int64_t length) {
  Workload workload;
  workload.steps = {{schedule::whole_batch(rows, length)}};
  workload.capacity_tokens = rows * length;
  return workload;
}

config::RunConfig plain_run() {
  config::RunConfig run;
  run.model_name_or_path = "m";
  run.max_length = 2048;
  return run;
}

const Remedy* find(const std::vector<Remedy>& all, const std::string& name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Remedy& remedy) { return remedy.name == name; });
  return found == all.end() ? nullptr : &*found;
}

TEST(Remedies, LargestSavingFirstAndOnlyWhatTheRunLacks) {
  const std::vector<Remedy> found = remedies(arch::resolve(plain_run(), llama_8b()), h100(), batches(8, 2048));
  ASSERT_GE(found.size(), 6U);
  for (size_t i = 1; i < found.size(); ++i) EXPECT_GE(found[i - 1].saved_bytes, found[i].saved_bytes);
  for (const Remedy& remedy : found) EXPECT_GT(remedy.saved_bytes, 0) << remedy.name;
  EXPECT_EQ(find(found, "flash attention"), nullptr) << "the run has it";
  EXPECT_EQ(find(found, "math attention"), nullptr) << "it saves nothing";
  EXPECT_EQ(find(found, "FP32"), nullptr) << "the run has it";
  EXPECT_THAT(find(found, "LoRA")->settings, ElementsAre("method=lora"));
  EXPECT_THAT(find(found, "1 × 8 accumulated")->settings,
              ElementsAre("per_device_train_batch_size=1", "gradient_accumulation_steps=8"));
  EXPECT_NE(find(found, "4 × 2 accumulated"), nullptr);
  EXPECT_EQ(find(found, "2 × 4 accumulated"), nullptr) << "the next smaller micro-batch and the smallest are enough";
}

// What a remedy says is what the analytic estimate says of the run that its settings make.
TEST(Remedies, SettingsMakeTheRunThatIsReckoned) {
  const arch::Architecture architecture = llama_8b();
  const config::RunConfig run = plain_run();
  const int64_t before = estimate_analytic(arch::resolve(run, architecture), h100(), batches(8, 2048)).peak;
  for (const Remedy& remedy : remedies(arch::resolve(run, architecture), h100(), batches(8, 2048))) {
    const config::RunConfig changed = config::parse_config("model_name_or_path: m\nmax_length: 2048\n", "run.yaml",
                                                           remedy.settings, config::Purpose::kEstimate);
    Workload workload = batches(changed.per_device_train_batch_size, changed.max_length);
    if (changed.gradient_accumulation_steps > 1) workload.steps = {{workload.steps[0][0], workload.steps[0][0]}};
    const int64_t after = estimate_analytic(arch::resolve(changed, architecture),
                                            target_of(h100(), arch::resolve(changed, architecture)), workload)
                              .peak;
    EXPECT_EQ(remedy.peak, after) << remedy.name;
    EXPECT_EQ(remedy.saved_bytes, before - after) << remedy.name;
  }
}

// Of runs that keep their updates and of one that does not: what is proposed keeps them, where an optimizer can.
TEST(Remedies, NeverRoundWeightsToNearest) {
  std::vector<config::RunConfig> runs(5, plain_run());
  runs[1].dtype = DType::kBF16;
  runs[1].master_weights = config::MasterWeights::kStochastic;
  runs[2].dtype = DType::kBF16;
  runs[2].master_weights = config::MasterWeights::kFp32;
  runs[3].dtype = DType::kBF16;
  runs[3].method = config::Method::kLora;
  runs[4].dtype = DType::kBF16;  // rounded to nearest
  for (const config::RunConfig& run : runs) {
    const std::string yaml = config::to_yaml(run);
    const std::vector<Remedy> found = remedies(arch::resolve(run, llama_8b()), h100(), batches(8, 2048));
    EXPECT_FALSE(found.empty());
    for (const Remedy& remedy : found) {
      const config::RunConfig changed =
          config::parse_config(yaml, "run.yaml", remedy.settings, config::Purpose::kEstimate);
      EXPECT_FALSE(config::rounds_weights_to_nearest(changed)) << remedy.name;
    }
  }
  const std::vector<Remedy> plain = remedies(arch::resolve(plain_run(), llama_8b()), h100(), batches(8, 2048));
  EXPECT_THAT(find(plain, "BF16 rounded stochastically")->settings,
              ElementsAre("dtype=bfloat16", "master_weights=stochastic"));
}

TEST(Remedies, TellWhatTheyCost) {
  const std::vector<Remedy> found = remedies(arch::resolve(plain_run(), llama_8b()), h100(), batches(8, 2048));
  // A third pass besides forward and the two of backward; the head is outside of checkpoints.
  EXPECT_NEAR(*find(found, "checkpointing")->work, 4.0 / 3, 0.05);
  EXPECT_LT(*find(found, "LoRA")->work, 0.75) << "no gradients of weights";
  EXPECT_FALSE(find(found, "half the length")->work.has_value()) << "other data are no cost in time";
  const std::string text = describe_remedies(found, 0, 2);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  EXPECT_THAT(text, StartsWith("  method=lora"));
  EXPECT_THAT(text, HasSubstr("times the arithmetic\n"));
  EXPECT_THAT(text, Not(HasSubstr("enough")));
  const std::string enough = describe_remedies(found, found[1].saved_bytes, 3);
  size_t marked = 0;
  for (size_t at = 0; (at = enough.find("enough by itself", at)) != std::string::npos; ++at) ++marked;
  EXPECT_EQ(marked, 2U);
  EXPECT_EQ(describe_remedies({}), "");
}

TEST(Remedies, FollowWhatDecidesThePeak) {
  config::RunConfig run = plain_run();
  run.method = config::Method::kLora;
  run.bf16 = true;
  run.dtype = DType::kBF16;
  run.gradient_checkpointing = true;
  run.per_device_train_batch_size = 1;
  run.per_device_eval_batch_size = 512;
  Workload workload = batches(1, 512);
  workload.evaluations = {schedule::whole_batch(512, 512)};
  workload.capacity_tokens = int64_t{512} * 512;
  const std::vector<Remedy> found = remedies(arch::resolve(run, llama_8b()), h100(), workload);
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().settings, ElementsAre("per_device_eval_batch_size=1"));
  EXPECT_EQ(find(found, "LoRA"), nullptr);
  EXPECT_EQ(find(found, "checkpointing"), nullptr);
}

TEST(Remedies, ChunksOfTheLossWhereThereAreNoneOrLargeOnes) {
  config::RunConfig run = plain_run();
  EXPECT_EQ(find(remedies(arch::resolve(run, llama_8b()), h100(), batches(8, 2048)), "loss in chunks"), nullptr);
  for (const int64_t size : {0, 16384}) {
    run.loss_chunk_size = size;
    const std::vector<Remedy> found = remedies(arch::resolve(run, llama_8b()), h100(), batches(8, 2048));
    const Remedy* chunks = find(found, "loss in chunks");
    ASSERT_NE(chunks, nullptr);
    EXPECT_THAT(chunks->settings, ElementsAre("loss_chunk_size=1024"));
    EXPECT_GT(chunks->saved_bytes, int64_t{8} * 1024 * llama_8b().vocab_size * 4) << "half of the logits or more";
  }
}

TEST(Remedies, ShareAModelThatProcessesHoldWhole) {
  config::RunConfig run = plain_run();
  run.num_processes = 8;
  std::vector<Remedy> found = remedies(arch::resolve(run, llama_8b()), h100(), batches(1, 2048));
  ASSERT_NE(find(found, "shares of the model"), nullptr);
  EXPECT_THAT(find(found, "shares of the model")->settings, ElementsAre("strategy=fsdp"));
  // Of each of 8.03e9 parameters 16 bytes of weight, gradient and moments, and 4 of others' gradients.
  EXPECT_NEAR(static_cast<double>(find(found, "shares of the model")->saved_bytes), 7.0 / 8 * 20 * 8.03e9, 1e9);
  EXPECT_EQ(find(found, "several GPUs"), nullptr) << "there are";
  run.strategy = config::Strategy::kFsdp;
  EXPECT_EQ(find(found = remedies(arch::resolve(run, llama_8b()), h100(), batches(1, 2048)), "shares of the model"),
            nullptr);
  run.strategy = config::Strategy::kDdp;
  run.dtype = DType::kBF16;
  found = remedies(arch::resolve(run, llama_8b()), h100(), batches(1, 2048));
  EXPECT_THAT(find(found, "shares of the model")->settings, ElementsAre("strategy=fsdp", "master_weights=stochastic"));
  run.optim = config::Optimizer::kAdafactor;
  EXPECT_EQ(find(found = remedies(arch::resolve(run, llama_8b()), h100(), batches(1, 2048)), "shares of the model"),
            nullptr);
}

TEST(Remedies, NameAsManyGpusAsHoldTheRun) {
  Target target = h100();
  target.capacity_bytes = int64_t{60} << 30;
  const config::RunConfig run = plain_run();
  std::vector<Remedy> found = remedies(arch::resolve(run, llama_8b()), target, batches(1, 2048));
  ASSERT_NE(find(found, "several GPUs"), nullptr);
  EXPECT_THAT(find(found, "several GPUs")->settings, ElementsAre("num_processes=4", "strategy=fsdp"))
      << "half of 128 GB is too much";
  EXPECT_LE(find(found, "several GPUs")->peak, target.capacity_bytes);
  target.capacity_bytes = int64_t{500} << 30;
  EXPECT_EQ(find(found = remedies(arch::resolve(run, llama_8b()), target, batches(1, 2048)), "several GPUs"), nullptr)
      << "it fits";
}

TEST(Techniques, SettingsNameOnlyWhatMattersAfterwards) {
  config::RunConfig from = plain_run();
  from.method = config::Method::kLora;
  from.lora_r = 64;
  const auto rows = techniques(arch::resolve(from, llama_8b()), h100());
  const auto full =
      std::find_if(rows.begin(), rows.end(), [](const Technique& row) { return row.name == "full training"; });
  const auto autocast = std::find_if(rows.begin(), rows.end(),
                                     [](const Technique& row) { return row.name == "BF16 weights and autocast"; });
  EXPECT_THAT(settings_between(from, *full->apply(from)), ElementsAre("method=full"));
  EXPECT_THAT(settings_between(from, *autocast->apply(from)), ElementsAre("bf16=true"))
      << "a frozen base is stored as in the checkpoint, in BF16 here";
  EXPECT_FALSE(autocast->apply(*full->apply(from)).has_value()) << "full training has no frozen weights";
}

TEST(Techniques, BatchesSplitTheEffectiveBatch) {
  config::RunConfig run = plain_run();
  run.per_device_train_batch_size = 6;
  run.gradient_accumulation_steps = 2;
  std::vector<int64_t> batches;
  for (const Technique& row : techniques(arch::resolve(run, llama_8b()), h100())) {
    if (row.group != "batch") continue;
    const config::RunConfig changed = *row.apply(run);
    EXPECT_EQ(changed.per_device_train_batch_size * changed.gradient_accumulation_steps, 12);
    batches.push_back(changed.per_device_train_batch_size);
  }
  EXPECT_THAT(batches, ElementsAre(1, 2, 3, 4, 6, 12));
}

}  // namespace
}  // namespace fathom::plan::remedies_test
