// Runs on a folder with experts in MXFP4: measured as planned, on the phantom GPU too, resumed, exported as it is, and
// merged into what `quantize` reads back.
#include <gmock/gmock.h>

#include <cstring>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"
#include "weights/folder.h"

namespace fathom::mxfp4_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr const char* kFull = " method=full target_modules=null target_parameters=null";

class Mxfp4 : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::create_directories(folder_ / "model");
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy(fs::path(FATHOM_SOURCE_DIR) / "tests/model/mxfp4" / file, folder_ / "model" / file);
    }
    write_ragged_ids("data.jsonl");
    write("run.yaml", R"(model_name_or_path: model
method: lora
target_modules: [q_proj, o_proj]
target_parameters: [experts.gate_up_proj, experts.down_proj]
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 4
max_steps: 4
eval_strategy: epoch
save_steps: 2
logging_steps: 1
output_dir: out
)");
  }
  void train(const std::string& settings) {
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml" + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    const Json peak = read_json(folder_ / "out" / "memory.json").at("peak");
    EXPECT_EQ(peak.at("dry_run"), peak.at("measured")) << settings;
    const auto formula = peak.at("analytic").get<double>();
    EXPECT_NEAR(formula, peak.at("measured").get<double>(), 0.03 * formula) << settings;
  }
};

TEST_F(Mxfp4, RunsAreMeasuredAsPlannedAndResumeInTheSameBits) {
  train("");
  const std::string whole = hash_file(folder_ / "out" / "adapter_model.safetensors");
  fs::remove(folder_ / "out" / "adapter_model.safetensors");
  fs::remove_all(folder_ / "out" / "checkpoint-4");
  ASSERT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0);
  EXPECT_EQ(hash_file(folder_ / "out" / "adapter_model.safetensors"), whole);
  train(" bf16=true packing=true max_length=32");
}

TEST_F(Mxfp4, RunsGoAsPlannedOnThePhantomGpu) {
  for (const std::string settings : {"", " bf16=true", " dtype=bfloat16 gradient_checkpointing=true packing=true"}) {
    train(" device=cuda --phantom-gpu H100" + settings);
  }
}

TEST_F(Mxfp4, IsExportedAsItIsAndMergedWhereItIsReadBack) {
  ASSERT_EQ(run("export model --out again").status, 0);
  const weights::ModelFolder model(folder_ / "model"), again(folder_ / "again");
  EXPECT_EQ(again.config()["quantization_config"], model.config()["quantization_config"]);
  ASSERT_EQ(again.names(), model.names());
  for (const std::string& name : model.names()) {
    const auto before = model.find(name), after = again.find(name);
    ASSERT_EQ(after->info->bytes, before->info->bytes) << name;
    EXPECT_EQ(std::memcmp(after->data(), before->data(), static_cast<size_t>(before->info->bytes)), 0) << name;
  }
  train("");
  const Outcome refused = run("export out --merge --out merged");
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr("fathom quantize"));
  ASSERT_EQ(run("quantize model --format bf16 --out wide").status, 0);
  const Outcome merged = run("export out --merge --base wide --out merged");
  ASSERT_EQ(merged.status, 0) << merged.errors;
  const weights::ModelFolder wide(folder_ / "wide"), result(folder_ / "merged");
  ASSERT_EQ(result.names(), wide.names());
  for (const std::string& name : wide.names()) {
    const auto before = wide.find(name), after = result.find(name);
    ASSERT_EQ(after->info->shape, before->info->shape) << name;
    const bool adapted = name.ends_with("q_proj.weight") || name.ends_with("o_proj.weight") ||
                         name.ends_with("gate_up_proj") || name.ends_with("down_proj");
    const int difference = std::memcmp(after->data(), before->data(), static_cast<size_t>(before->info->bytes));
    EXPECT_EQ(difference != 0, adapted) << name;
  }
  EXPECT_EQ(run(std::string("eval run.yaml model_name_or_path=merged") + kFull).status, 0);
}

TEST_F(Mxfp4, IsRefusedWhereItCannotServe) {
  const Outcome full = run(std::string("train run.yaml") + kFull);
  EXPECT_EQ(full.status, 2);
  EXPECT_THAT(full.errors, ::testing::AllOf(HasSubstr("stores its experts in MXFP4"), HasSubstr("set method: lora")));
  const Outcome other = run("train run.yaml load_in_4bit=true");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("remove load_in_4bit"));
  EXPECT_THAT(run("quantize model --format nf4 --out again").errors, HasSubstr("is quantized already, in MXFP4"));
  EXPECT_THAT(run("inspect model").output, HasSubstr("experts in"));
}

}  // namespace
}  // namespace fathom::mxfp4_test
