// What an answer of `advise` is good for: it is written as a config that trains, it knows what GPUs have not run, and
// the keys that it takes for idle are idle.
#include <gmock/gmock.h>

#include <map>

#include "base/json_value.h"
#include "config/keys.h"
#include "plan/advice/memory_keys.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class AdviseAnswers : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 256,
"hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
"max_position_embeddings": 512, "rms_norm_eps": 1e-5, "hidden_act": "silu", "dtype": "float32"})");
    write_ids("data.jsonl", 40);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
device: cpu
num_threads: 1
train_file: data.jsonl
validation_file: data.jsonl
eval_strategy: steps
eval_steps: 3
per_device_train_batch_size: 4
max_steps: 4
save_steps: 2
output_dir: out
)");
  }
};

TEST_F(AdviseAnswers, AreWrittenAsAConfigThatTrains) {
  const std::string ask = "advise run.yaml --budget 2500000 --write best.yaml";
  const Outcome written = run(ask);
  ASSERT_EQ(written.status, 0) << written.errors;
  EXPECT_THAT(written.output, HasSubstr("config: best.yaml"));
  const std::string config = read_file(folder_ / "best.yaml");
  EXPECT_THAT(config, AllOf(HasSubstr("# Made by `fathom advise run.yaml --budget 2500000`"),
                            HasSubstr("train_file: data.jsonl  # as asked"), HasSubstr("memory_budget: "),
                            HasSubstr("by formula."), Not(HasSubstr("seed:"))));
  const Outcome trained = run("train best.yaml");
  EXPECT_EQ(trained.status, 0) << trained.errors << config;
  EXPECT_THAT(trained.output, HasSubstr("equal to the byte"));

  const Outcome again = run(ask);
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, AllOf(HasSubstr("best.yaml: the file is there"), HasSubstr("--overwrite")));
  EXPECT_EQ(read_file(folder_ / "best.yaml"), config);
  EXPECT_EQ(run(ask + " --overwrite").status, 0);
  EXPECT_EQ(read_file(folder_ / "best.yaml"), config);

  const Outcome nowhere = run("advise run.yaml --write no/best.yaml");
  EXPECT_NE(nowhere.status, 0);
  EXPECT_THAT(nowhere.errors, HasSubstr("there is no folder 'no'"));
  const Outcome nothing = run("advise run.yaml --budget 1MiB --write other.yaml --keep method,precision");
  EXPECT_THAT(nothing.output, HasSubstr("no config was written"));
  EXPECT_FALSE(fs::exists(folder_ / "other.yaml"));
}

// Full training of 1.2 billion parameters on 8 GB, of which three stay free: by what no GPU has run, and said so.
TEST_F(AdviseAnswers, SayWhatNoGpuHasRun) {
  const std::string ask = "advise llama-3.2-1b --gpu RTX-4060 max_length=512 --keep method";
  const Outcome outcome = run(ask);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("optimizer_in_backward=true"), HasSubstr("No GPU has run"),
                                    HasSubstr("Gradients are not clipped"), HasSubstr("Of what GPUs have run, the"),
                                    HasSubstr("max_length=512 and else the defaults"), Not(HasSubstr("As it is"))));
  const Outcome json = run(ask + " --json");
  const Json advice = parse_json(json.output, "advise");
  EXPECT_FALSE(advice.at("best").at("near_limit").get<bool>());
  EXPECT_FALSE(advice.at("best").at("not_run_on_gpus").empty());
  EXPECT_FALSE(advice.at("smallest_tried").at("fits").get<bool>());
  std::string settings;
  for (const Json& setting : advice.at("best").at("settings")) settings += setting.get<std::string>() + " ";
  write("each.txt", settings + "\nper_device_train_batch_size=1 gradient_accumulation_steps=8\n");
  const Outcome each = run("estimate llama-3.2-1b --gpu RTX-4060 max_length=512 --each each.txt");
  ASSERT_EQ(each.status, 0) << each.errors;
  const Json first = Json::parse(each.output.substr(0, each.output.find('\n')));
  EXPECT_EQ(first.at("need"), advice.at("best").at("dry_run"));
  EXPECT_DOUBLE_EQ(first.at("expected_seconds"), advice.at("best").at("expected_seconds"));
  EXPECT_EQ(first.at("host_bytes"), advice.at("best").at("host_bytes"));
  EXPECT_THAT(run("estimate llama-3.2-1b --gpu RTX-4060 max_length=512").output,
              HasSubstr("Planned with max_length=512 and else the defaults (full, FP32, 8 × 512)."));
}

TEST_F(AdviseAnswers, LinesOfSettingsSetWhatIsSearchedAlone) {
  write("each.txt", "max_length=3\n");
  EXPECT_THAT(run("estimate run.yaml --each each.txt").errors, HasSubstr("'max_length=3' sets nothing that"));
  write("each.txt", "fp16=true bf16=true\n\n");
  const Outcome outcome = run("estimate run.yaml --each each.txt");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("\"refused\""), HasSubstr("\"need\"")));
}

// Values that differ from run.yaml's.
const std::map<std::string, std::string> kOthers = {
    {"adam_beta1", "0.8"},       {"adam_beta2", "0.9"},
    {"adam_epsilon", "1e-6"},    {"ddp_timeout", "7"},
    {"learning_rate", "0.01"},   {"early_stopping_patience", "2"},
    {"logging_steps", "1"},      {"load_best_model_at_end", "true"},
    {"lora_alpha", "3"},         {"lr_scheduler_type", "cosine"},
    {"output_dir", "elsewhere"}, {"report_to", "tensorboard"},
    {"save_steps", "1"},         {"save_in_background", "false"},
    {"save_total_limit", "1"},   {"save_strategy", "epoch"},
    {"use_rslora", "true"},      {"warmup_steps", "1"},
    {"weight_decay", "0.1"},
};

TEST_F(AdviseAnswers, KeysThatAreDeclaredIdleChangeNoByte) {
  const auto peak = [&](const std::string& setting) {
    const Outcome outcome = run("estimate run.yaml method=lora --json " + setting);
    EXPECT_EQ(outcome.status, 0) << setting << outcome.errors;
    return parse_json(outcome.output, "estimate").at("components").dump();
  };
  const std::string plain = peak("");
  int64_t seen = 0;
  for (const config::Key& key : config::keys()) {
    if (plan::memory_key(key.name) != plan::MemoryKey::kNone) continue;
    const auto other = kOthers.find(std::string(key.name));
    ASSERT_NE(other, kOthers.end()) << key.name << ": say here a value that it does not have";
    EXPECT_EQ(peak(other->first + "=" + other->second), plain) << other->first;
    ++seen;
  }
  EXPECT_EQ(seen, static_cast<int64_t>(kOthers.size()));
  EXPECT_NE(peak("per_device_train_batch_size=5"), plain);
}

}  // namespace
}  // namespace fathom
