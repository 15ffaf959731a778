// Runs on folders in FP8 with scales of blocks (scripts/golden/fp8_blocks.py): measured as planned, on the phantom GPU
// and by three processes too, resumed, exported as they are, and merged into what `quantize` reads back.
#include <gmock/gmock.h>

#include "tests/app/folder_in_codes.h"

namespace fathom::fp8_blocks_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Fp8Blocks : public FolderInCodes {
 protected:
  void set_up_llama() { set_up("fp8_blocks/llama", /*experts=*/false); }
  void set_up_experts() { set_up("fp8_blocks/qwen3_moe", /*experts=*/true); }
  void expect_measured_as_planned() {
    expect_resumed_in_the_same_bits();
    expect_planned_on_the_phantom_gpu();
    train(" device=cuda --phantom-gpu H100 bf16=true cuda_kernels=true");
  }
};

TEST_F(Fp8Blocks, RunsAreMeasuredAsPlannedAndResumeInTheSameBits) {
  set_up_llama();
  expect_measured_as_planned();
}

TEST_F(Fp8Blocks, RunsOnExpertsAreMeasuredAsPlannedAndResumeInTheSameBits) {
  set_up_experts();
  expect_measured_as_planned();
}

// Rows of shares end within parts of experts.
TEST_F(Fp8Blocks, IsDividedAmongProcesses) {
  set_up_experts();
  const std::string command = "train run.yaml num_threads=1 per_device_train_batch_size=2 max_length=16";
  ASSERT_EQ(run(command + " gradient_accumulation_steps=3 output_dir=alone").status, 0);
  const Outcome together = run(command + " num_processes=3 strategy=fsdp output_dir=together");
  ASSERT_EQ(together.status, 0) << together.errors;
  EXPECT_EQ(numbers("together"), numbers("alone"));
  EXPECT_TRUE(weights("together") == weights("alone"));
  expect_planned(together, 3);
}

TEST_F(Fp8Blocks, IsExportedAsItIsAndMergedWhereItIsReadBack) {
  set_up_experts();
  expect_exported_and_merged(
      {"q_proj.weight", "o_proj.weight", "gate_proj.weight", "up_proj.weight", "down_proj.weight"});
}

TEST_F(Fp8Blocks, IsRefusedWhereItCannotServe) {
  set_up_llama();
  const Outcome full = run(std::string("train run.yaml") + kFullInCodes);
  EXPECT_EQ(full.status, 2);
  EXPECT_THAT(full.errors,
              AllOf(HasSubstr("stores its projections in FP8, blocks of 128"), HasSubstr("set method: lora")));
  EXPECT_THAT(run("train run.yaml load_in_4bit=true").errors, HasSubstr("remove load_in_4bit"));
  EXPECT_THAT(run("train run.yaml fp8=true bf16=true device=cuda --phantom-gpu H100").errors,
              HasSubstr("scale for each row"));
  EXPECT_THAT(run("quantize model --format nf4 --out again").errors, HasSubstr("is quantized already, in FP8"));
  EXPECT_THAT(run("inspect model").output, HasSubstr("FP8, blocks of 128"));
}

}  // namespace
}  // namespace fathom::fp8_blocks_test
