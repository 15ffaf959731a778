// Children that answer, die, hang, lie or do not listen: an answer or an Error that says which.
#include "phantom_gpu/child.h"

#include <gmock/gmock.h>
#include <signal.h>

#include "base/error.h"
#include "base/json_value.h"

namespace fathom::phantom_gpu {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
              AllOf(HasSubstr("line 1999"), ::testing::Not(HasSubstr("line 100\n"))));
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

// A shell that answers each line by its number, and obeys a few words.
Child teller() {
  return Child("/bin/sh", {"-c", R"(n=0; while read -r line; do n=$((n+1)); case $line in
    *die*) echo the reason >&2; exit 3;; *leave*) exit 0;; *crash*) kill -11 $$;; *hang*) exec sleep 60;;
    *mute*) exec >&-; exec sleep 60;; *babble*) printf '1\n2\n';; *lie*) echo 'no JSON';; *slow*) sleep 0.2; echo $n;;
    *) echo $n;; esac; done)"});
}

constexpr milliseconds kPatience(20000);

std::string error_of(Child& child, const std::string& word, milliseconds timeout = kPatience) {
  try {
    return "no error, but " + child.ask(word, timeout).dump();
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ChildTest, AnswersOneQuestionAfterTheOther) {
  Child child = teller();
  for (int question = 1; question <= 200; ++question) EXPECT_EQ(child.ask("what", kPatience), Json(question));
  EXPECT_EQ(child.ask("slow", kPatience), Json(201));
  EXPECT_TRUE(child.is_alive());
}

TEST(ChildTest, CarriesLinesLargerThanAnyBuffer) {
  Child child("/bin/cat", {});
  for (const int megabytes : {1, 9, 2}) {
    const Json request = {{"text", std::string(static_cast<size_t>(megabytes) << 20, 'x') + "\n"}};
    EXPECT_EQ(child.ask(request, kPatience), request);
  }
}

TEST(ChildTest, TellsWhyItEndedAndStaysEnded) {
  const std::pair<const char*, const char*> cases[] = {{"die", "failed with exit status 3; it said:\nthe reason"},
                                                       {"leave", "ended without an answer"},
                                                       {"crash", "killed by signal 11"},
                                                       {"babble", "said more than one line"},
                                                       {"lie", "the answer of the child process sh"}};
  for (const auto& [word, reason] : cases) {
    Child child = teller();
    EXPECT_EQ(child.ask("what", kPatience), Json(1));
    EXPECT_THAT(error_of(child, word), HasSubstr(reason));
    EXPECT_FALSE(child.is_alive()) << word;
    EXPECT_THAT(error_of(child, "what"), HasSubstr("the child process sh has ended")) << word;
  }
}

TEST(ChildTest, StopsOneThatHangs) {
  for (const char* word : {"hang", "mute"}) {
    Child child = teller();
    const auto start = steady_clock::now();
    EXPECT_THAT(error_of(child, word, milliseconds(300)), HasSubstr("was stopped")) << word;
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(20));
    EXPECT_FALSE(child.is_alive());
  }
}

// The rest of one answer is never taken for the next one.
TEST(ChildTest, RefusesWhatNobodyAskedFor) {
  Child child("/bin/sh", {"-c", R"(while read -r line; do printf '1\n2\n'; done)"});  // both in one write
  try {
    child.ask("what", kPatience);
    child.ask("what", kPatience);
    FAIL() << "two answers for one question";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                ::testing::AnyOf(HasSubstr("said more than one line"), HasSubstr("nobody had asked for")));
  }
}

TEST(ChildTest, NoticesOneThatDiedBetweenTwoQuestions) {
  Child child("/bin/sh", {"-c", "read -r line; echo 1; echo enough >&2; exit 5"});
  EXPECT_EQ(child.ask("what", kPatience), Json(1));
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  while (child.is_alive() && steady_clock::now() < deadline) usleep(1000);
  EXPECT_FALSE(child.is_alive());
  EXPECT_THAT(error_of(child, "what"), HasSubstr("has ended"));
}

TEST(ThisProgram, IsTheRunningTest) { EXPECT_EQ(this_program().filename(), "phantom_gpu_test"); }

}  // namespace
}  // namespace fathom::phantom_gpu
