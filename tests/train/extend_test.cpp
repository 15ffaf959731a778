// A run that goes on for longer, or at other rates, than it began with: where the rates so far are those that the new
// settings give, it ends in the bits of a run that was begun so; where not, that is said.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/hash.h"
#include "tests/train/small_run.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Extend : public testing::SmallRun {
 protected:
  config::RunConfig constant(const std::string& name) const {
    config::RunConfig config = this->config(name);  // 4 epochs of 4 steps
    config.lr_scheduler_type = config::Schedule::kConstant;
    config.save_strategy = config::Cadence::kEpoch;
    return config;
  }
  static std::string weights_of(const config::RunConfig& config) {
    return hash_file(fs::path(config.output_dir) / "model.safetensors");
  }
  // Goes on, and returns what was logged.
  std::string go_on(config::RunConfig config, RunResult* result = nullptr) const {
    config.resume_from_checkpoint = "auto";
    ::testing::internal::CaptureStderr();
    RunResult extended;
    std::string failure;
    try {
      extended = run(config);
    } catch (const Error& error) {
      failure = error.what();
    }
    if (result != nullptr) *result = extended;
    return ::testing::internal::GetCapturedStderr() + failure;
  }
};

TEST_F(Extend, AFinishedRunEndsInTheBitsOfOneThatWasPlannedLonger) {
  struct Case {
    const char* name;
    config::Schedule schedule;
    double warmup, first, then;  // epochs
  };
  for (const Case& one : {Case{"constant", config::Schedule::kConstant, 0, 2, 5},
                          Case{"warm", config::Schedule::kConstantWithWarmup, 3, 2, 5},
                          Case{"share", config::Schedule::kConstant, 0, 1.5, 3}}) {
    config::RunConfig whole = constant(one.name + std::string("-whole")), parts = constant(one.name);
    for (config::RunConfig* each : {&whole, &parts}) {
      each->lr_scheduler_type = one.schedule;
      each->warmup_steps = one.warmup;
    }
    whole.num_train_epochs = one.then;
    parts.num_train_epochs = one.first;
    run(whole);
    run(parts);
    EXPECT_NE(weights_of(parts), weights_of(whole));
    parts.num_train_epochs = one.then;
    RunResult result;
    EXPECT_THAT(go_on(parts, &result), AllOf(HasSubstr("its steps so far are those of a run that was begun so"),
                                             Not(HasSubstr("warning")), HasSubstr("num_train_epochs")));
    EXPECT_EQ(result.steps, static_cast<int64_t>(4 * one.then));
    EXPECT_EQ(weights_of(parts), weights_of(whole)) << one.name;
  }
}

TEST_F(Extend, MaxStepsExtendsToo) {
  config::RunConfig whole = constant("whole"), parts = constant("parts");
  whole.max_steps = 11;
  parts.max_steps = 7;
  run(whole);
  run(parts);
  parts.max_steps = 11;
  go_on(parts);
  EXPECT_EQ(weights_of(parts), weights_of(whole));
}

TEST_F(Extend, ASchedulesStepsSoFarAreToldToBeAnothers) {
  config::RunConfig config = constant("linear");
  config.lr_scheduler_type = config::Schedule::kLinear;
  run(config);
  config.num_train_epochs = 8;
  RunResult result;
  // 16 of 32 steps: half of 0.01; the run before came down to 1/16 of it.
  EXPECT_THAT(go_on(config, &result),
              AllOf(HasSubstr("warning: the run goes on to step 32 (before: 16) with num_train_epochs: 8 (there 4)"),
                    HasSubstr("The next rate is 0.005; the last one was 0.000625"), HasSubstr("would be 0")));
  EXPECT_EQ(result.steps, 32);
}

TEST_F(Extend, AnotherRateIsTold) {
  config::RunConfig config = constant("rate");
  run(config);
  config.learning_rate = 1e-3;
  config.num_train_epochs = 5;
  EXPECT_THAT(go_on(config),
              AllOf(HasSubstr("warning"), HasSubstr("learning_rate: 0.001 (there 0.01), num_train_epochs: 5 (there 4)"),
                    HasSubstr("The next rate is 0.001; the last one was 0.01")));
}

TEST_F(Extend, ARunIsNotMadeShorterThanItIs) {
  config::RunConfig config = constant("shorter");
  run(config);
  const std::string before = weights_of(config);
  config.num_train_epochs = 2;
  EXPECT_THAT(go_on(config), AllOf(HasSubstr("is of step 16"), HasSubstr("the run ends after step 8"),
                                   HasSubstr("raise max_steps or num_train_epochs")));
  EXPECT_EQ(weights_of(config), before);
}

}  // namespace
}  // namespace fathom::train
