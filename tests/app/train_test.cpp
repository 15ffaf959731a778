// `train` on the CPU as a user runs it: measured as planned, resumed, and never at the cost of what a folder already
// holds.
#include <gmock/gmock.h>

#include "base/hash.h"
#include "base/json.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Train : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "data" / "model", folder_ / "model");
    std::string lines;
    for (int i = 0; i < 40; ++i) {
      lines += Json{{"prompt", "What is " + std::to_string(i) + " plus one?\n"}, {"completion", std::to_string(i + 1)}}
                   .dump() +
               "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 6
gradient_accumulation_steps: 2
max_steps: 6
eval_strategy: steps
eval_steps: 3
eval_on_start: true
save_steps: 2
logging_steps: 1
output_dir: out
)");
  }
};

TEST_F(Train, IsMeasuredAsPlanned) {
  for (const std::string settings :
       {"dtype=float32", "bf16=true", "method=lora", "method=lora bf16=true lora_dropout=0.1"}) {
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml " + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json memory = read_json(folder_ / "out" / "memory.json");
    EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured")) << settings;
  }
}

TEST_F(Train, ContinuesWhereItStoppedAndEndsInTheSameBits) {
  ASSERT_EQ(run("train run.yaml output_dir=whole").status, 0);
  ASSERT_EQ(run("train run.yaml").status, 0);
  fs::remove(folder_ / "out" / "model.safetensors");
  fs::remove_all(folder_ / "out" / "checkpoint-6");
  const Outcome resumed = run("train run.yaml resume_from_checkpoint=auto");
  ASSERT_EQ(resumed.status, 0) << resumed.errors;
  EXPECT_THAT(resumed.errors, HasSubstr("checkpoint-4"));
  EXPECT_THAT(resumed.output, HasSubstr("equal to the byte"));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), hash_file(folder_ / "whole" / "model.safetensors"));
  const std::string metrics = read_file(folder_ / "out" / "metrics.jsonl");
  EXPECT_EQ(std::count(metrics.begin(), metrics.end(), '\n'), 6 + 3) << "each step and evaluation once";
}

TEST_F(Train, TakesNoFolderThatHoldsSomething) {
  ASSERT_EQ(run("train run.yaml").status, 0);
  const std::string weights = hash_file(folder_ / "out" / "model.safetensors");
  const Outcome again = run("train run.yaml");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.errors, HasSubstr("already holds a run"));
  const Outcome phantom = run("train run.yaml device=auto resume_from_checkpoint=auto --phantom-gpu H100");
  EXPECT_NE(phantom.status, 0);
  EXPECT_FALSE(fs::exists(folder_ / "out" / "phantom-run.txt"));
  for (const char* step : {"2", "4", "6"}) fs::remove_all(folder_ / "out" / (std::string("checkpoint-") + step));
  const Outcome anew = run("train run.yaml resume_from_checkpoint=auto");
  EXPECT_EQ(anew.status, 1);
  EXPECT_THAT(anew.errors, HasSubstr("no sound checkpoint"));
  const Outcome itself = run("train run.yaml output_dir=model");
  EXPECT_EQ(itself.status, 2);
  EXPECT_THAT(itself.errors, HasSubstr("the model itself"));
  EXPECT_EQ(hash_file(folder_ / "out" / "model.safetensors"), weights);
}

}  // namespace
}  // namespace fathom
