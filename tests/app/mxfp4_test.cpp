// Runs on a folder with experts in MXFP4 (scripts/golden/mxfp4.py): measured as planned, on the phantom GPU too,
// resumed, exported as it is, and merged into what `quantize` reads back.
#include <gmock/gmock.h>

#include "tests/app/folder_in_codes.h"

namespace fathom::mxfp4_test {
namespace {

using ::testing::HasSubstr;

class Mxfp4 : public FolderInCodes {
 protected:
  void SetUp() override {
    FolderInCodes::SetUp();
    set_up("mxfp4", /*experts=*/true);
  }
};

TEST_F(Mxfp4, RunsAreMeasuredAsPlannedAndResumeInTheSameBits) { expect_resumed_in_the_same_bits(); }

TEST_F(Mxfp4, RunsGoAsPlannedOnThePhantomGpu) { expect_planned_on_the_phantom_gpu(); }

TEST_F(Mxfp4, IsExportedAsItIsAndMergedWhereItIsReadBack) {
  expect_exported_and_merged({"q_proj.weight", "o_proj.weight", "gate_up_proj", "down_proj"});
}

TEST_F(Mxfp4, IsRefusedWhereItCannotServe) {
  const Outcome full = run(std::string("train run.yaml") + kFullInCodes);
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
