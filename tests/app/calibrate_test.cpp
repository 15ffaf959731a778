// `fathom doctor --calibrate`: records are written, used by plans, and never guessed.
#include <gmock/gmock.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Calibrate : public ProgramTest {
 protected:
  Outcome run_here(const std::string& arguments) {
    return run(arguments, "OMP_NUM_THREADS=1 FATHOM_CALIBRATION='" + (folder_ / "records").string() + "' ");
  }
  const std::string estimate_ = "estimate smollm2-135m max_length=32 per_device_train_batch_size=1 ";
};

TEST_F(Calibrate, MeasuresTheCpuForExpectedTimes) {
  EXPECT_THAT(run_here(estimate_).output, HasSubstr("this CPU is not calibrated"));
  const Outcome outcome = run_here("doctor --calibrate --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json record = parse_json(outcome.output, "doctor")[0];
  EXPECT_EQ(record.at("speeds").size(), 6U) << "two precisions, three widths, one thread";
  for (const Json& speed : record.at("speeds")) {
    EXPECT_GT(speed.at("matrix_flops_per_second").get<double>(), 1e8);
    EXPECT_GT(speed.at("bytes_per_second").get<double>(), 1e7);
  }
  const Outcome estimate = run_here(estimate_);
  EXPECT_THAT(estimate.output,
              HasSubstr("Expected, by the calibration of " + record.at("measured_on").get<std::string>()));
  EXPECT_THAT(run_here(estimate_ + "num_threads=3").output, HasSubstr("this CPU is not calibrated"));
}

// The driver's bytes are what the stubs say: nothing lies beneath a phantom's runtime.
TEST_F(Calibrate, MeasuresEachCombinationOfKernelsInAFreshProcess) {
  const Outcome outcome = run_here("doctor --calibrate --phantom-gpu L4 --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json record = parse_json(outcome.output, "doctor")[0];
  EXPECT_EQ(record.at("device"), "phantom L4");
  EXPECT_EQ(record.at("overheads").size(), 16U);
  for (const Json& overhead : record.at("overheads")) EXPECT_EQ(overhead.at("bytes"), 0);
}

TEST_F(Calibrate, ARecordGivesTheDriversFigure) {
  const std::string settings = estimate_ + "--gpu L4 --placements 1 ";
  EXPECT_THAT(run_here(settings).output, HasSubstr("not calibrated"));
  write("records/nvidia-l4.json",
        R"({"schema_version": 1, "device": "NVIDIA L4", "measured_on": "2026-11-21", "speeds": [], "overheads": [
            {"precision": "float32", "attention": "flash", "method": "full", "gradient_checkpointing": false,
             "bytes": 536870912}]})");
  EXPECT_THAT(run_here(settings).output,
              AllOf(HasSubstr("512.00 MiB for the driver (calibrated)"), Not(HasSubstr("not calibrated"))));
  const Json json = parse_json(run_here(settings + "--json").output, "estimate");
  EXPECT_EQ(json.at("device").at("dry_run"), json.at("reserved").at("dry_run").get<int64_t>() + 536'870'912);
  EXPECT_THAT(run_here(settings + "bf16=true").output, HasSubstr("not calibrated")) << "other kernels, other modules";
}

// Whose clock stands: what is measured is that all its runs can be made, of a GPU of 24 GB too.
TEST_F(Calibrate, TimesTheOperatorsOfStepsOnAGpu) {
  const Outcome outcome = run_here("answer-operators --phantom-gpu L4");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, Not(HasSubstr("not timed")));
  const Json table = parse_json(outcome.output, "answer");
  EXPECT_EQ(table.at("products").size(), 0);
  EXPECT_GT(table.at("gap_us").get<double>(), 0);
}

TEST_F(Calibrate, AMeasuredTableOfTimesGoesBeforeTheOneThatComesAlong) {
  const std::string settings = "estimate smollm2-135m bf16=true --gpu H100 --placements 1 ";
  const std::string source = "operators measured on NVIDIA H100 80GB HBM3 on ";
  EXPECT_THAT(run_here(settings).output, AllOf(HasSubstr(source), Not(HasSubstr("2031"))));
  const std::string file = "records/gpu-times/nvidia-h100-80gb-hbm3.json";
  write(file, R"({"device": "NVIDIA H100 80GB HBM3", "measured_on": "2031-01-01", "by": "", "gap_us": 1, "launch_us": 1,
                  "tflops": {"bfloat16": 900, "float32": 50}, "memory_gb_per_second": 3000, "products": [],
                  "attention": [], "streams": [{"operator": "aten::add_", "bytes": 1000000, "us": 1}]})");
  EXPECT_THAT(run_here(settings).output, HasSubstr(source + "2031-01-01"));
  const Outcome homeless = run(settings, "env -u HOME -u XDG_CONFIG_HOME -u FATHOM_CALIBRATION ");
  EXPECT_EQ(homeless.status, 0) << homeless.errors;
  EXPECT_THAT(homeless.output, AllOf(HasSubstr(source), Not(HasSubstr("2031"))));
  write(file, "{}");
  const Outcome damaged = run_here(settings);
  EXPECT_EQ(damaged.status, 0);
  EXPECT_THAT(damaged.errors, AllOf(HasSubstr(file), HasSubstr("plans go on without this table")));
  EXPECT_THAT(damaged.output, AllOf(HasSubstr(source), Not(HasSubstr("2031"))));
}

TEST_F(Calibrate, ADamagedRecordIsToldAndNotUsed) {
  write("records/nvidia-l4.json", "{\"schema_version\": 1}");
  const Outcome outcome = run_here(estimate_ + "--gpu L4 --placements 1");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("nvidia-l4.json"), HasSubstr("plans go on without calibration")));
  EXPECT_THAT(outcome.output, HasSubstr("not calibrated"));
}

}  // namespace
}  // namespace fathom
