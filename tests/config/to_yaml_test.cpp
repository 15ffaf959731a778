// Configs out: whatever can be loaded is written so that it loads to the same value.
#include "config/to_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "config/keys.h"
#include "config/load.h"
#include "config/settings.h"
#include "config/text.h"

namespace fathom::config {
namespace {

// One line of text, with everything that YAML gives a meaning.
rc::Gen<std::string> text() {
  return rc::gen::map(rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::element<std::string>(
                          "a", "Z", "0", " ", "/", ".", "-", "_", ":", ": ", " #", "'", "\"", "\\", "{", "}", "[", "]",
                          ",", "&", "*", "!", "|", ">", "%", "@", "`", "null", "true", "~", "yes", "1e-4", "é", "日本",
                          "\xC2\x85", "\xE2\x80\xA8", "\xEF\xBB\xBF", "😀", "..."))),
                      [](const std::vector<std::string>& parts) {
                        std::string joined;
                        for (const std::string& part : parts) joined += part;
                        // The home folder is put in the place of a ~ at the beginning, and a null on the command line
                        // takes a value away.
                        return joined[0] == '~' || joined == "null" ? "a" + joined : joined;
                      });
}

// A path that is no word with a meaning of its own (resume_from_checkpoint: true is refused).
rc::Gen<std::string> path() {
  return rc::gen::map(text(), [](const std::string& tail) { return "p/" + tail; });
}

rc::Gen<double> number(double low, double high) {
  return rc::gen::map(rc::gen::inRange<int64_t>(0, int64_t{1} << 52), [=](int64_t part) {
    return low + (high - low) * static_cast<double>(part) / static_cast<double>(int64_t{1} << 52);
  });
}

RunConfig any_config() {
  RunConfig run;
  const auto integer = [](int64_t low) { return *rc::gen::inRange<int64_t>(low, 2147483647); };
  const auto truth = [] { return *rc::gen::arbitrary<bool>(); };
  run.model_name_or_path = *text();
  run.random_init = truth();
  if (truth()) run.dtype = truth() ? DType::kF32 : DType::kBF16;
  run.attn_implementation = *rc::gen::element(Attention::kFlash, Attention::kMath, Attention::kCudnn);
  run.device = *rc::gen::element(Device::kAuto, Device::kCpu, Device::kCuda);
  run.num_threads = *rc::gen::inRange<int64_t>(0, 1025);
  run.num_processes = *rc::gen::inRange<int64_t>(1, 1025);
  if (truth()) {
    run.strategy = Strategy::kFsdp;
    run.reshard_after_forward = truth();
    run.dp_replicate_size = *rc::gen::inRange<int64_t>(1, 33);
    run.dp_shard_size = *rc::gen::inRange<int64_t>(0, 33);
    run.num_processes = run.dp_replicate_size * (run.dp_shard_size > 0 ? run.dp_shard_size : 3);
  }
  if (run.strategy == Strategy::kDdp && truth()) run.strategy = Strategy::kAuto;
  run.ddp_timeout = *rc::gen::inRange<int64_t>(1, 1000);
  if (truth()) run.memory_budget = integer(1) << *rc::gen::inRange(0, 32);
  run.method = *rc::gen::element(Method::kFull, Method::kLora);
  if (run.method == Method::kLora) {
    run.lora_r = integer(1);
    run.lora_alpha = *number(1e-9, 1e6);
    run.lora_dropout = *number(0, 0.999);
    run.target_modules = *rc::gen::oneOf(rc::gen::just(std::vector<std::string>{}),
                                         rc::gen::just(std::vector<std::string>{"all-linear"}),
                                         rc::gen::unique<std::vector<std::string>>(path()));
    run.target_parameters = *rc::gen::unique<std::vector<std::string>>(path());
    run.modules_to_save = *rc::gen::unique<std::vector<std::string>>(path());
  }
  run.bf16 = truth() && !(run.method == Method::kFull && run.dtype == DType::kBF16);
  run.train_file = *rc::gen::nonEmpty(rc::gen::unique<std::vector<std::string>>(text()));
  if (truth()) run.validation_file = {*text()};
  if (run.validation_file.empty()) run.validation_split = *number(0, 0.999);
  run.dataset_format = *rc::gen::element(DatasetFormat::kAuto, DatasetFormat::kTokenIds, DatasetFormat::kShareGpt);
  run.packing = truth();
  run.pad_to_multiple_of = run.packing ? 0 : integer(0);
  run.max_length = integer(1);
  run.shuffle = truth();
  run.group_by_length = run.shuffle && !run.packing && truth();
  if (truth()) run.completion_only_loss = truth();
  run.assistant_only_loss = run.completion_only_loss != true && truth();
  run.split_special_tokens = truth();
  run.per_device_train_batch_size = integer(1);
  run.per_device_eval_batch_size = integer(1);
  run.gradient_accumulation_steps = *rc::gen::inRange<int64_t>(1, kMostAccumulated + 1);
  run.num_train_epochs = *number(1e-12, 1e12);
  run.max_steps = truth() ? -1 : integer(1);
  run.learning_rate = *number(0, 1e-3);
  run.lr_scheduler_type =
      *rc::gen::element(Schedule::kConstant, Schedule::kConstantWithWarmup, Schedule::kLinear, Schedule::kCosine);
  run.warmup_steps = truth() ? *number(0, 1) : static_cast<double>(integer(1));
  run.weight_decay = *number(0, 1);
  run.adam_beta1 = *number(0, 0.999);
  run.adam_beta2 = *number(0, 0.999);
  run.adam_epsilon = *number(1e-12, 1e-6);
  run.max_grad_norm = *number(0, 10);
  run.gradient_checkpointing = truth();
  run.seed = integer(0);
  run.logging_steps = integer(1);
  if (!run.validation_file.empty()) {
    run.eval_strategy = *rc::gen::element(Cadence::kNo, Cadence::kSteps, Cadence::kEpoch);
    run.eval_on_start = truth();
    if (run.eval_strategy == Cadence::kSteps) run.eval_steps = integer(0);
  }
  run.save_strategy = *rc::gen::element(Cadence::kNo, Cadence::kSteps, Cadence::kEpoch);
  if (run.save_strategy == Cadence::kSteps) run.save_steps = integer(1);
  if (run.save_strategy != Cadence::kNo) run.save_total_limit = integer(0);
  run.output_dir = *text();
  run.resume_from_checkpoint =
      *rc::gen::oneOf(rc::gen::just(std::string()), rc::gen::just(std::string("auto")), path());
  return run;
}

RC_GTEST_PROP(ToYaml, ReadsBackToTheSameValue, ()) {
  const RunConfig run = any_config();
  const std::string yaml = to_yaml(run);
  RC_LOG(yaml);
  RC_ASSERT(parse_config(yaml, "config.yaml", {}) == run);
  RC_ASSERT(settings_in(yaml) == settings_of(run));
  RC_ASSERT(config_of(settings_of(run), "settings") == run);
}

// One path as it stands, unless it looks like a list.
std::string override_of(const std::vector<std::string>& paths) {
  if (paths.size() == 1 && !paths[0].starts_with('[')) return paths[0];
  std::string list;
  for (const std::string& path : paths) list += (list.empty() ? "[" : ", ") + quote(path);
  return list + "]";
}

// The command line takes what the file does.
RC_GTEST_PROP(ToYaml, OverridesReadBackToTheSameValue, ()) {
  const RunConfig run = any_config();
  std::vector<std::string> overrides;
  for (const Key& key : keys()) {
    std::string value = key.get(run);
    if (value == key.get(RunConfig{})) continue;
    if (key.name == "model_name_or_path") value = run.model_name_or_path;
    if (key.name == "train_file") value = override_of(run.train_file);
    if (key.name == "validation_file") value = override_of(run.validation_file);
    if (key.name == "output_dir") value = run.output_dir;
    if (key.name == "resume_from_checkpoint") value = run.resume_from_checkpoint;
    overrides.push_back(std::string(key.name) + "=" + value);
  }
  RC_ASSERT(parse_config("", "", overrides) == run);
}

TEST(ToYaml, IsInGroupsAndLeavesOutWhatHasNoMeaning) {
  RunConfig run;
  run.model_name_or_path = "data/model";
  run.output_dir = "a: b";
  run.learning_rate = 1e-5;
  const std::string yaml = to_yaml(run);
  EXPECT_THAT(yaml, ::testing::StartsWith("# model\nmodel_name_or_path: data/model\nrandom_init: false\n"));
  EXPECT_THAT(yaml, ::testing::HasSubstr("\n\n# run\noutput_dir: \"a: b\"\n"));
  EXPECT_THAT(yaml, ::testing::HasSubstr("learning_rate: 1.0e-05\n"));
  EXPECT_THAT(yaml, ::testing::Not(::testing::HasSubstr("lora_r")));
  EXPECT_THAT(yaml, ::testing::Not(::testing::HasSubstr("dtype")));
}

}  // namespace
}  // namespace fathom::config
