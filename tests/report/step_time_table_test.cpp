// What is shown of expected and measured time.
#include "report/step_time_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json_value.h"

namespace fathom::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

StepTimes example_times() {
  StepTimes times{.steps = 2, .measured = 0.2, .parts = {0.05, 0.12, 0.02}, .expected = plan::ExpectedTime{}};
  times.source = "a table";
  times.expected->parts = {{.matrix_seconds = 0.04}, {.memory_seconds = 0.12}, {.memory_seconds = 0.021}};
  return times;
}

TEST(StepTimeTable, HasARowForEachPart) {
  EXPECT_EQ(format_step_times(example_times()),
            "time of a step   expected  measured   off by\n"
            "────────────────────────────────────────────\n"
            "forward           20.0 ms   25.0 ms  -20.0 %\n"
            "backward          60.0 ms   60.0 ms        0\n"
            "optimizer_step    10.5 ms   10.0 ms  +5.00 %\n"
            "between               0 s   5.00 ms\n"
            "────────────────────────────────────────────\n"
            "mean of 2 steps   90.5 ms    100 ms  -9.50 %\n");
}

TEST(StepTimeTable, NamesWaitingThatIsExpected) {
  StepTimes times = example_times();
  EXPECT_THAT(format_step_times(times), Not(HasSubstr("waiting")));
  times.expected->exposed_seconds = 0.01;
  EXPECT_THAT(format_step_times(times), HasSubstr("waiting, within these"));
}

TEST(StepTimeTable, OfUnknownHardwareHasWhatWasMeasured) {
  StepTimes times = example_times();
  times.expected.reset();
  EXPECT_THAT(format_step_times(times), Not(HasSubstr("expected")));
  EXPECT_THAT(format_step_times(times), HasSubstr("60.0 ms"));
  EXPECT_TRUE(step_times_json(times).at("expected_seconds").is_null());
  EXPECT_TRUE(step_times_json(times).at("source").is_null());
}

TEST(StepTimeTable, OfNoStepsIsEmpty) {
  EXPECT_EQ(format_step_times({}), "");
  EXPECT_TRUE(step_times_json({}).is_null());
}

TEST(StepTimeTable, AsJsonHasSecondsOfAllSteps) {
  const Json json = step_times_json(example_times());
  EXPECT_EQ(json.at("steps"), 2);
  EXPECT_EQ(json.at("measured_seconds"), 0.2);
  EXPECT_EQ(json.at("forward_measured_seconds"), 0.05);
  EXPECT_EQ(json.at("backward_expected_seconds"), 0.12);
  EXPECT_EQ(json.at("source"), "a table");
}

}  // namespace
}  // namespace fathom::report
