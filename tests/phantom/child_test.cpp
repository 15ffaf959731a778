// Children that answer, die, hang, lie or do not listen: an answer or an Error that says which.
#include "phantom/child.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "base/error.h"

namespace fathom::phantom {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

Json shell(const std::string& script, const Json& request = Json::object(),
           milliseconds timeout = milliseconds(20000)) {
  return run_child("/bin/sh", {"-c", script}, request, timeout);
}

std::string error_of(const std::string& script, milliseconds timeout = milliseconds(20000)) {
  try {
    const Json answer = shell(script, {{"a", 1}}, timeout);
    return "no error, but " + answer.dump();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(RunChild, ReturnsTheAnswer) { EXPECT_EQ(shell("echo '{\"answer\": 42}'"), Json({{"answer", 42}})); }

TEST(RunChild, HandsOverTheRequest) {
  const Json request = {{"text", "with \"quotes\" and\nlines"}, {"number", 7}};
  EXPECT_EQ(shell("cat", request), request);
}

TEST(RunChild, CarriesMoreThanAnyBufferBothWays) {
  const Json request = {{"text", std::string(8 << 20, 'x')}};
  EXPECT_EQ(shell("cat", request), request);
}

TEST(RunChild, TakesAnAnswerFromAChildThatDoesNotRead) {
  const Json request = {{"text", std::string(8 << 20, 'x')}};
  EXPECT_EQ(shell("exec <&-; echo 1", request), Json(1));
}

TEST(RunChild, TellsTheExitStatusAndTheLastWords) {
  EXPECT_THAT(error_of("echo the reason >&2; exit 3"), AllOf(HasSubstr("exit status 3"), HasSubstr("the reason")));
}

TEST(RunChild, ShowsTheEndOfALongStory) {
  EXPECT_THAT(error_of("i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1"),
              AllOf(HasSubstr("line 1999"), testing::Not(HasSubstr("line 100\n"))));
}

TEST(RunChild, TellsWhichSignalKilledIt) {
  EXPECT_THAT(error_of("kill -9 $$"), HasSubstr("killed by signal 9"));
  EXPECT_THAT(error_of("kill -11 $$"), HasSubstr("killed by signal 11"));
}

TEST(RunChild, StopsOneThatHangs) {
  const auto start = steady_clock::now();
  EXPECT_THAT(error_of("exec sleep 60", milliseconds(300)), HasSubstr("did not answer within 300 ms"));
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(RunChild, StopsOneThatHangsAfterClosingItsOutputs) {
  EXPECT_THAT(error_of("exec >&- 2>&-; exec sleep 60", milliseconds(300)), HasSubstr("did not answer within 300 ms"));
}

TEST(RunChild, RefusesWhatIsNotJson) {
  EXPECT_THAT(error_of("echo 'no JSON'"), HasSubstr("the answer of the child process sh"));
  EXPECT_THAT(error_of("true"), HasSubstr("the answer of the child process sh"));
}

TEST(RunChild, SaysWhatCannotBeStarted) {
  EXPECT_THROW(
      {
        try {
          run_child("/does/not/exist", {}, Json::object(), milliseconds(1000));
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("/does/not/exist"));
          throw;
        }
      },
      Error);
}

TEST(ThisProgram, IsTheRunningTest) { EXPECT_EQ(this_program().filename(), "phantom_test"); }

}  // namespace
}  // namespace fathom::phantom
