// The progress line: its text, what gives way on a narrow terminal, speed and time left, and when it is shown.
#include "report/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace fathom::report {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

Progress example_progress() {
  return {.metrics = {.step = 120,
                      .loss = 1.23456,
                      .learning_rate = 4.5e-5,
                      .tokens_per_second = 3210.4,
                      .live_bytes = int64_t{1} << 30,
                      .peak_bytes = int64_t{3} << 29},
          .total_steps = 600,
          .seconds_left = 83};
}

TEST(FormatProgress, ShowsEverythingWhereThereIsRoom) {
  EXPECT_EQ(format_progress(example_progress()),
            "step 120/600 20%  loss 1.2346  lr 4.50e-05  3,210 tok/s  ETA 1m23s  memory 1.00 GiB  peak 1.50 GiB");
  Progress unknown = example_progress();
  unknown.seconds_left = -1;
  EXPECT_THAT(format_progress(unknown), HasSubstr("ETA —  memory"));
}

TEST(FormatProgress, DropsTheLeastImportantOnANarrowTerminal) {
  EXPECT_EQ(format_progress(example_progress(), 90),
            "step 120/600 20%  loss 1.2346  3,210 tok/s  ETA 1m23s  memory 1.00 GiB  peak 1.50 GiB");
  EXPECT_EQ(format_progress(example_progress(), 80),
            "step 120/600 20%  loss 1.2346  3,210 tok/s  ETA 1m23s  memory 1.00 GiB");
  EXPECT_EQ(format_progress(example_progress(), 20), "step 120/600 20%  loss 1.2346  3,210 tok/s  ETA 1m23s");
}

TEST(FormatProgress, ShowsTheLossScaleOfFp16AndWhatWasSkipped) {
  Progress progress = example_progress();
  progress.metrics.more = {{"loss_scale", 32768.0}};
  EXPECT_THAT(format_progress(progress), HasSubstr("lr 4.50e-05  scale 32768  3,210 tok/s"));
  progress.metrics.more.emplace_back("skipped_steps", int64_t{1234});
  EXPECT_THAT(format_progress(progress), HasSubstr("scale 32768  skipped 1,234  3,210 tok/s"));
  EXPECT_EQ(format_progress(progress, 20), "step 120/600 20%  loss 1.2346  skipped 1,234  3,210 tok/s  ETA 1m23s");
}

TEST(FormatProgress, ShowsWhatPreferencesGained) {
  Progress progress = example_progress();
  progress.metrics.more = {{"rewards/margins", 0.1234}, {"rewards/accuracies", 0.75}};
  EXPECT_THAT(format_progress(progress), HasSubstr("loss 1.2346  accuracy 75 %  margin 0.123  lr 4.50e-05"));
}

class ProgressPrinterTest : public ::testing::Test {
 protected:
  ProgressPrinter printer(bool live) {
    return ProgressPrinter({.live = live,
                            .in_place = [this](std::string_view line) { in_place_.emplace_back(line); },
                            .line = [this](std::string_view line) { lines_.emplace_back(line); },
                            .width = [this] { return width_; },
                            .now = [this] { return now_; }});
  }
  static Progress at_step(int64_t step, int64_t total_steps) {
    return {.metrics = {.step = step}, .total_steps = total_steps};
  }

  ProgressPrinter::Clock::time_point now_{seconds(1000)};
  std::vector<std::string> in_place_, lines_;
  int64_t width_ = 0;
};

TEST_F(ProgressPrinterTest, LinesThatStayFitATerminalAndAreWholeInAFile) {
  width_ = 80;
  ProgressPrinter live = printer(true), into_a_file = printer(false);
  live.step(example_progress(), 100, 1, true);
  into_a_file.step(example_progress(), 100, 1, true);
  EXPECT_THAT(lines_[0], Not(HasSubstr("peak")));
  EXPECT_THAT(lines_[1], HasSubstr("peak"));
}

TEST_F(ProgressPrinterTest, TellsSpeedAndTimeLeft) {
  ProgressPrinter progress = printer(true);
  progress.step(at_step(101, 111), 500, 2, false);
  EXPECT_THAT(in_place_, ElementsAre(::testing::AllOf(HasSubstr("250 tok/s"), HasSubstr("ETA 20s"))))
      << "the 100 steps before a resume say nothing of this run's speed";
}

TEST_F(ProgressPrinterTest, RecentStepsWeighMore) {
  ProgressPrinter progress = printer(true);
  for (int i = 1; i <= 200; ++i) {
    now_ += seconds(1);
    progress.step(at_step(i, 1000), 100, i == 1 ? 100 : 1, false);  // a slow first step
  }
  EXPECT_THAT(in_place_.back(), HasSubstr("  100 tok/s"));
}

TEST_F(ProgressPrinterTest, ALoggedLineTellsTheSpeedThatIsLogged) {
  ProgressPrinter progress = printer(false);
  Progress logged = at_step(20, 40);
  logged.metrics.tokens_per_second = 77;
  progress.step(logged, 500, 2, true);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("  77 tok/s")));
}

TEST_F(ProgressPrinterTest, PlainOutputHasLoggedStepsOnly) {
  ProgressPrinter progress = printer(false);
  for (int i = 1; i <= 10; ++i) progress.step(at_step(i, 10), 1, 1, i % 5 == 0);
  EXPECT_THAT(lines_, SizeIs(2));
  EXPECT_THAT(in_place_, IsEmpty());
}

TEST_F(ProgressPrinterTest, ATerminalIsNotFlooded) {
  ProgressPrinter progress = printer(true);
  for (int i = 1; i <= 30; ++i) {
    now_ += milliseconds(10);
    progress.step(at_step(i, 100), 1, 0.01, false);
  }
  EXPECT_THAT(in_place_, SizeIs(3));
  EXPECT_THAT(lines_, IsEmpty());
}

}  // namespace
}  // namespace fathom::report
