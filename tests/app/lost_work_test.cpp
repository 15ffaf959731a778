// What a run writes beside its weights never costs the weights: missing logs, logs that cannot be written, other paths.
#include <gmock/gmock.h>

#include <fstream>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class LostWork : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 101,
        "hidden_size": 16, "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5})");
    write_ids("data.jsonl", 20);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
device: cpu
num_threads: 1
train_file: data.jsonl
max_length: 64
per_device_train_batch_size: 4
lr_scheduler_type: constant
max_steps: 6
save_steps: 2
logging_steps: 1
report_to: tensorboard
output_dir: out
)");
    ASSERT_EQ(run("train run.yaml output_dir=whole").status, 0);
  }

  std::string bits(const std::string& folder) const { return hash_file(folder_ / folder / "model.safetensors"); }
  std::vector<int64_t> steps_of(const std::string& folder) const {
    std::ifstream lines(folder_ / folder / "metrics.jsonl");
    std::vector<int64_t> steps;
    for (std::string line; std::getline(lines, line);) steps.push_back(Json::parse(line).at("step"));
    return steps;
  }
  // Goes on in `out` from checkpoint-2 of the whole run, of which these files are beside it.
  Outcome go_on(const std::vector<std::string>& beside, const std::string& words = "") {
    fs::remove_all(folder_ / "out");
    fs::create_directories(folder_ / "out");
    fs::copy(folder_ / "whole" / "checkpoint-2", folder_ / "out" / "checkpoint-2", fs::copy_options::recursive);
    for (const std::string& name : beside) fs::copy(folder_ / "whole" / name, folder_ / "out" / name);
    return run("train run.yaml resume_from_checkpoint=auto " + words);
  }
  // Of a run in which all calls that change files below `path` fail from the n-th on.
  std::string failing(int n, const std::string& path, const std::string& more = "") const {
    return "LD_PRELOAD='" FATHOM_KILL_AT_LIBRARY "' FATHOM_KILL_ERRNO=28 FATHOM_KILL_AT=from:" + std::to_string(n) +
           ":" + (folder_ / path).string() + " " + more;
  }

  const std::string events_ = "events.out.tfevents.fathom";
};

TEST_F(LostWork, ACheckpointBroughtAloneBeginsItsLogsAnew) {
  const Outcome alone = go_on({});
  ASSERT_EQ(alone.status, 0) << alone.errors;
  EXPECT_THAT(alone.errors, AllOf(HasSubstr("warning: out/metrics.jsonl is not there"),
                                  HasSubstr("warning: out/" + events_ + " is not there")));
  EXPECT_EQ(bits("out"), bits("whole"));
  EXPECT_THAT(steps_of("out"), ::testing::ElementsAre(3, 4, 5, 6));

  const Outcome with_both = go_on({"metrics.jsonl", events_});
  EXPECT_THAT(with_both.errors, Not(HasSubstr("warning")));
  EXPECT_THAT(steps_of("out"), ::testing::ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(bits("out"), bits("whole"));
}

TEST_F(LostWork, AnotherLogIsKeptApart) {
  go_on({});
  fs::rename(folder_ / "whole" / "metrics.jsonl", folder_ / "own.jsonl");
  write("whole/metrics.jsonl", read_file(folder_ / "own.jsonl") + "{\"step\":7}\n");
  EXPECT_THAT(go_on({"metrics.jsonl"}).errors, Not(HasSubstr("metrics.jsonl is not"))) << "longer: cut as ever";
  write("whole/metrics.jsonl", "{\"step\":1}\n");
  const Outcome outcome = go_on({"metrics.jsonl"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("it is now out/abandoned-metrics.jsonl, and the log begins anew"));
  EXPECT_EQ(read_file(folder_ / "out" / "abandoned-metrics.jsonl"), "{\"step\":1}\n");
  EXPECT_EQ(bits("out"), bits("whole"));
}

TEST_F(LostWork, ALogThatCannotBeWrittenCostsNoWeights) {
  for (const std::string& log : {std::string("metrics.jsonl"), events_}) {
    fs::remove_all(folder_ / "out");
    const Outcome refused = run("train run.yaml", failing(1, "out/" + log));
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.errors, AllOf(HasSubstr(log), HasSubstr("No space left on device")));
    EXPECT_FALSE(fs::exists(folder_ / "out" / "checkpoint-2")) << "before the first step";

    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml", failing(4, "out/" + log));
    EXPECT_EQ(outcome.status, 1);
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr(log + ": cannot be written: No space left on device; training goes on"),
                                      HasSubstr("more")));
    EXPECT_EQ(bits("out"), bits("whole"));
    EXPECT_TRUE(fs::exists(folder_ / "out" / "report.html"));
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));

    fs::remove_all(folder_ / "out");
    const Outcome stopped = run("train run.yaml save_strategy=no", failing(4, "out/" + log, "FATHOM_KILL_SIGNAL=15 "));
    EXPECT_EQ(stopped.status, 143);
    EXPECT_THAT(stopped.errors, AllOf(HasSubstr("saved out/checkpoint-"), HasSubstr("error: out/" + log)));
    EXPECT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0);
    EXPECT_EQ(bits("out"), bits("whole"));
  }
}

TEST_F(LostWork, WhatIsInTheWayIsToldBeforeTheFirstStep) {
  for (const std::string name : {"metrics.jsonl", "report.html", "memory.json", "timeline.json", "config.yaml",
                                 "model.safetensors", "events.out.tfevents.fathom"}) {
    fs::remove_all(folder_ / "out");
    fs::create_directories(folder_ / "out" / name / "something");
    const Outcome outcome = run("train run.yaml resume_from_checkpoint=auto");
    EXPECT_NE(outcome.status, 0) << name;
    EXPECT_THAT(outcome.errors, HasSubstr(name));
    EXPECT_FALSE(fs::exists(folder_ / "out" / "checkpoint-2")) << name;
  }
  fs::remove_all(folder_ / "out");
  const Outcome profile = run("train run.yaml --profile missing/profile.json");
  EXPECT_EQ(profile.status, 1);
  EXPECT_THAT(profile.errors, HasSubstr("missing"));
}

TEST_F(LostWork, AnotherSpellingOfAPathIsTheSameRun) {
  const std::vector<std::string> logs{"metrics.jsonl", events_};
  for (const std::string& path : {std::string("./data.jsonl"), (folder_ / "data.jsonl").string()}) {
    const Outcome outcome = go_on(logs, "train_file=" + path);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.errors,
                HasSubstr("train_file: " + path + " (there data.jsonl): what is read there is the same"));
    EXPECT_EQ(bits("out"), bits("whole"));
  }
  write_ids("data.jsonl", 21);
  const Outcome other = go_on(logs, "train_file=./data.jsonl");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("was saved on other data"));
}

}  // namespace
}  // namespace fathom
