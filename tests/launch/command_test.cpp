// Other programs, run in the place of this one.
#include "launch/command.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/error.h"

namespace fathom::launch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The status, where nothing is left behind.
int status_of(const std::vector<std::string>& words, const std::map<std::string, std::string>& variables = {}) {
  const Ended ended = run_command(
      words, variables, [] { return false; }, std::chrono::seconds(9));
  EXPECT_THAT(ended.left, ElementsAre());
  return ended.status;
}

TEST(RunCommand, GivesTheStatusOfTheProgram) {
  EXPECT_EQ(status_of({"true"}), 0);
  EXPECT_EQ(status_of({"sh", "-c", "exit 7"}), 7);
  EXPECT_EQ(status_of({"sh", "-c", "kill -9 $$"}), 128 + SIGKILL);
}

TEST(RunCommand, SetsVariablesForItAlone) {
  EXPECT_EQ(status_of({"sh", "-c", "[ \"$FATHOM_TEST_VARIABLE\" = 'a b' ]"}, {{"FATHOM_TEST_VARIABLE", "a b"}}), 0);
  EXPECT_EQ(std::getenv("FATHOM_TEST_VARIABLE"), nullptr);
}

TEST(RunCommand, SaysWhyAProgramCannotBeStarted) {
  const auto refusal = [](const std::string& program) {
    try {
      status_of({program});
      return std::string();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refusal("no-such-program"), HasSubstr("'no-such-program' cannot be started: No such file"));
  EXPECT_THAT(refusal("/tmp"), HasSubstr("Permission denied"));
}

bool is_anywhere(const std::string& program) {
  return std::system(("pgrep -x " + program + " >/dev/null").c_str()) == 0;
}

TEST(RunCommand, WaitsForWhatTheCommandLeavesBehind) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(status_of({"sh", "-c", "setsid sleep 1 & (sleep 1 &) & exit 4"}), 4);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
}

TEST(RunCommand, EndsWhatGoesOnTooLong) {
  std::filesystem::copy_file("/bin/sleep", "left_behind", std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove("ready");
  const Ended ended = run_command(
      {"sh", "-c",
       "setsid sh -c \"trap '' TERM; touch ready; ./left_behind 600; true\" & "
       "while ! [ -e ready ]; do sleep 0.01; done"},
      {}, [] { return false; }, std::chrono::seconds(0));
  EXPECT_EQ(ended.status, 0);
  EXPECT_THAT(ended.left, Contains(HasSubstr(" (sh)")));
  EXPECT_FALSE(is_anywhere("left_behind"));
  std::filesystem::remove("left_behind");
  std::filesystem::remove("ready");
}

TEST(RunCommand, WaitsForWhatIsAwaitedBeyondItsPatience) {
  const auto begin = std::chrono::steady_clock::now();
  const auto awaits = [&] { return std::chrono::steady_clock::now() - begin < std::chrono::seconds(1); };
  EXPECT_THAT(run_command({"setsid", "-f", "sleep", "0.5"}, {}, awaits, std::chrono::seconds(0)).left, ElementsAre());
}

TEST(RunCommand, KnowsWhetherAProcessHasEnded) {
  EXPECT_TRUE(is_running(::getpid()));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t end;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(is_running(child)) << "though nobody has taken leave of it";
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(is_running(child));
}

// The last one: this process starts no other program then.
TEST(RunCommand, PassesSignalsOnAndStopsThere) {
  const Ended ended = run_command(
      {"sh", "-c", "trap 'exit 3' TERM; kill -TERM $PPID; sleep 30 & wait"}, {}, [] { return true; },
      std::chrono::seconds(99));
  EXPECT_EQ(ended.status, 3);
  try {
    status_of({"true"});
    FAIL() << "it was started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'true' is not started: a signal has asked to stop (Terminated)"));
  }
}

}  // namespace
}  // namespace fathom::launch
