// `quantize`, and runs on the folders that it makes: measured as planned, on the phantom GPU too, and resumed.
#include <gmock/gmock.h>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Quantize : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    fs::copy(fs::path(FATHOM_SOURCE_DIR) / "tests/model/quantized/plain", folder_ / "plain");
    write_ragged_ids("data.jsonl");
    write("run.yaml", R"(model_name_or_path: q
method: lora
lora_dropout: 0.1
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
  void quantize(const std::string& format) {
    fs::remove_all(folder_ / "q");
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("quantize plain --out q --format " + format);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
  }
  // Predicted and measured agree; the analytic estimate comes near.
  void expect_as_planned(const std::string& what) {
    const Json memory = read_json(folder_ / "out" / "memory.json");
    EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured")) << what;
    for (const auto& [name, bytes] : memory.at("components").items()) {
      EXPECT_EQ(bytes.at("dry_run"), bytes.at("measured")) << what << " " << name;
    }
    const auto formula = memory.at("peak").at("analytic").get<double>();
    EXPECT_NEAR(formula, memory.at("peak").at("measured").get<double>(), 0.03 * formula) << what;
  }
};

constexpr const char* kFormats[] = {"int8", "fp8", "nf4", "nf4-double", "int4"};

TEST_F(Quantize, RunsOnItsFoldersAreMeasuredAsPlannedAndResumeInTheSameBits) {
  for (const std::string format : kFormats) {
    quantize(format);
    ASSERT_EQ(run("train run.yaml output_dir=whole").status, 0) << format;
    const Outcome outcome = run("train run.yaml");
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << format;
    expect_as_planned(format);
    fs::remove(folder_ / "out" / "adapter_model.safetensors");
    fs::remove_all(folder_ / "out" / "checkpoint-4");
    ASSERT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0) << format;
    EXPECT_EQ(hash_file(folder_ / "out" / "adapter_model.safetensors"),
              hash_file(folder_ / "whole" / "adapter_model.safetensors"))
        << format;
    fs::remove_all(folder_ / "whole");
  }
}

TEST_F(Quantize, RunsOnItsFoldersGoAsPlannedOnThePhantomGpu) {
  const bool has_cuda_kernels =
      fs::exists(fs::path(FATHOM_PROGRAM).parent_path() / "lib" / "libfathom_cuda_kernels.so");
  for (const std::string format : kFormats) {
    quantize(format);
    for (const std::string settings :
         {" bf16=true", " dtype=bfloat16 gradient_checkpointing=true", " bf16=true cuda_kernels=true"}) {
      if (settings.ends_with("cuda_kernels=true") && !has_cuda_kernels) continue;
      fs::remove_all(folder_ / "out");
      const Outcome outcome = run("train run.yaml device=cuda --phantom-gpu H100" + settings);
      ASSERT_EQ(outcome.status, 0) << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << format << settings;
      expect_as_planned(format + settings);
    }
  }
}

// The base that is rounded while it is read and the one that was rounded before have the same codes.
TEST_F(Quantize, TrainsAsIfTheBaseWereQuantizedWhileItIsRead) {
  const std::pair<const char*, const char*> same[] = {
      {"int8", "load_in_8bit=true"},
      {"fp8", "load_in_fp8=true"},
      {"nf4", "load_in_4bit=true"},
      {"nf4-double", "load_in_4bit=true bnb_4bit_use_double_quant=true"}};
  for (const auto& [format, settings] : same) {
    quantize(format);
    ASSERT_EQ(run("train run.yaml").status, 0);
    ASSERT_EQ(run(std::string("train run.yaml model_name_or_path=plain output_dir=other ") + settings).status, 0);
    EXPECT_EQ(hash_file(folder_ / "out" / "adapter_model.safetensors"),
              hash_file(folder_ / "other" / "adapter_model.safetensors"))
        << format;
    fs::remove_all(folder_ / "other");
  }
}

TEST_F(Quantize, TellsWhatItSavesAndCosts) {
  const Outcome text = run("quantize plain --format nf4 --out q --eval data.jsonl device=cpu");
  ASSERT_EQ(text.status, 0) << text.errors;
  EXPECT_THAT(text.output, AllOf(HasSubstr("q: NF4; "), HasSubstr("signal/noise dB"), HasSubstr("worst channel"),
                                 HasSubstr("evaluation loss ")));
  const Outcome outcome = run("quantize plain --format int8 --out q8 --eval data.jsonl --json device=cpu");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json json = parse_json(outcome.output, "stdout");
  EXPECT_EQ(json.at("format"), "INT8");
  EXPECT_EQ(json.at("quantized_values"), 24576);
  EXPECT_EQ(json.at("layers").size(), 1u);
  EXPECT_EQ(json.at("matrices").size(), 7u);
  const Json& losses = json.at("evaluation");
  EXPECT_NEAR(losses.at("change_percent").get<double>(), 0, 5);
  const Outcome evaluated = run("eval run.yaml model_name_or_path=q8 method=full");
  ASSERT_EQ(evaluated.status, 0) << evaluated.errors;
  char loss[40];
  std::snprintf(loss, sizeof loss, "loss %.6f", losses.at("loss_after").get<double>());
  EXPECT_THAT(evaluated.output, HasSubstr(loss));
}

TEST_F(Quantize, FoldersAreRefusedWhereTheyCannotServe) {
  quantize("nf4");
  const Outcome full = run("train run.yaml method=full");
  EXPECT_EQ(full.status, 2);
  EXPECT_THAT(full.errors, AllOf(HasSubstr("stores its projections in NF4"), HasSubstr("set method: lora")));
  const Outcome other = run("train run.yaml load_in_8bit=true");
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("remove load_in_8bit"));
  ASSERT_EQ(run("train run.yaml").status, 0);
  const Outcome merged = run("export out --merge --out merged");
  EXPECT_EQ(merged.status, 1);
  EXPECT_THAT(merged.errors, HasSubstr("fathom quantize"));
  EXPECT_THAT(run("inspect q").output, HasSubstr("projections in"));
  EXPECT_EQ(run("quantize plain --format int5 --out r").status, 2);
}

}  // namespace
}  // namespace fathom
