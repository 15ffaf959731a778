// The config that advice writes: what was asked and what is advised, with reasons, and `train` reads it.
#include "report/advised_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/bytes.h"
#include "config/load.h"
#include "plan/advice/techniques.h"
#include "schedule/inputs.h"

namespace fathom::report {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

arch::Architecture small_architecture() {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 1000;
  architecture.hidden_size = 64;
  architecture.layers.assign(
      2,
      {.mixer = arch::Attention{.heads = 4, .key_value_heads = 2, .head_dim = 16, .rotary = arch::Rotary{.width = 16}},
       .feed_forward = {.width = 128}});
  return architecture;
}

plan::Workload batches_of(const arch::Run& run) {
  plan::Workload workload;
  const schedule::BatchShape batch =
      schedule::whole_batch(run.config.per_device_train_batch_size, run.config.max_length);
  workload.steps = {schedule::StepShape(std::min<int64_t>(2, run.config.gradient_accumulation_steps), batch)};
  workload.capacity_tokens = batch.rows * batch.length;
  return workload;
}

TEST(AdvisedConfig, IsReadBackAndSaysWhyEachLineIsThere) {
  const std::vector<std::string> words = {"max_length=64", "learning_rate=0.001", "train_file=data.jsonl"};
  plan::Question question;
  question.run = arch::resolve(config::config_of_model("model", words), small_architecture());
  question.workload_of = batches_of;
  question.target.capacity_bytes = kGiB;
  plan::Advice advice;
  advice.best.emplace();
  advice.best->run = question.run.config;
  advice.best->run.gradient_checkpointing = true;
  advice.best->run.per_device_train_batch_size = 2;
  advice.best->run.gradient_accumulation_steps = 4;
  advice.best->techniques = {"full training", "FP32", "AdamW", "checkpointing", "flash attention", "2 × 4 accumulated"};
  advice.best->formula = 5 * kMiB;
  advice.best->proof = plan::Proof{6 * kMiB, true, false};
  const AdviceSubject subject{question, {30 * kMiB, true, false}};
  std::vector<std::string> all = words;
  for (const std::string& setting : plan::settings_between(question.run.config, advice.best->run))
    all.push_back(setting);
  all.emplace_back("output_dir=out");
  const config::RunConfig run = config::config_of_model("model", all);
  const std::set<std::string> given = {"max_length", "learning_rate", "train_file", "output_dir"};
  const std::string text = advised_config(subject, advice, run, given, "fathom advise model max_length=64");
  EXPECT_EQ(config::parse_config(text, "run.yaml", {}, config::Purpose::kTrain), run) << text;
  EXPECT_THAT(
      text, AllOf(HasSubstr("# Made by `fathom advise model max_length=64`.\n"), HasSubstr("needs 6.00 MiB by dry run"),
                  HasSubstr("# checkpointing: the same result; the forward pass is computed twice. Without,\n"),
                  HasSubstr("gradient_checkpointing: true\n"), HasSubstr("max_length: 64  # as asked\n"),
                  HasSubstr("by formula.\n"), Not(HasSubstr("lora_r")), Not(HasSubstr("seed"))));
  config::RunConfig without_data = run;
  without_data.train_file.clear();
  const std::string open = advised_config(subject, advice, without_data, given, "fathom advise model");
  EXPECT_THAT(open, HasSubstr("# train_file: "));
  EXPECT_EQ(config::parse_config(open, "run.yaml", {"train_file=data.jsonl"}, config::Purpose::kTrain), run) << open;
}

}  // namespace
}  // namespace fathom::report
