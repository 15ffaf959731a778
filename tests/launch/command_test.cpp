// Other programs, run in the place of this one.
#include "launch/command.h"

#include <gmock/gmock.h>

#include <csignal>

#include "base/error.h"

namespace fathom::launch {
namespace {

using ::testing::HasSubstr;

TEST(RunCommand, GivesTheStatusOfTheProgram) {
  EXPECT_EQ(run_command({"true"}, {}), 0);
  EXPECT_EQ(run_command({"sh", "-c", "exit 7"}, {}), 7);
  EXPECT_EQ(run_command({"sh", "-c", "kill -9 $$"}, {}), 128 + SIGKILL);
}

TEST(RunCommand, SetsVariablesForItAlone) {
  EXPECT_EQ(run_command({"sh", "-c", "[ \"$FATHOM_TEST_VARIABLE\" = 'a b' ]"}, {{"FATHOM_TEST_VARIABLE", "a b"}}), 0);
  EXPECT_EQ(std::getenv("FATHOM_TEST_VARIABLE"), nullptr);
}

TEST(RunCommand, SaysWhyAProgramCannotBeStarted) {
  const auto refusal = [](const std::string& program) {
    try {
      run_command({program}, {});
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal("no-such-program"), HasSubstr("'no-such-program' cannot be started: No such file"));
  EXPECT_THAT(refusal("/tmp"), HasSubstr("Permission denied"));
}

// The last one: this process starts no other program then.
TEST(RunCommand, PassesSignalsOnAndStopsThere) {
  EXPECT_EQ(run_command({"sh", "-c", "trap 'exit 3' TERM; kill -TERM $PPID; sleep 30 & wait"}, {}), 3);
  try {
    run_command({"true"}, {});
    FAIL() << "it was started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'true' is not started: a signal has asked to stop (Terminated)"));
  }
}

}  // namespace
}  // namespace fathom::launch
