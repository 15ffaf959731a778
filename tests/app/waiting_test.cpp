// How LibTorch's threads wait for each other: as the program chooses before it opens libgomp, or as the user says.
#include <gmock/gmock.h>
#include <sched.h>

#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class Waiting : public ProgramTest {
 protected:
  // What libgomp says of itself.
  std::string settings(const std::string& environment) {
    const std::string model = std::string(FATHOM_SOURCE_DIR) + "/data/model";
    const Outcome outcome =
        run("estimate '" + model + "' max_length=16", "OMP_DISPLAY_ENV=verbose " + environment + " ");
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return outcome.errors;
  }
};

TEST_F(Waiting, SpinsForAShortWhileUnlessTheUserSaysHowLong) {
  EXPECT_THAT(settings("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY"),
              AnyOf(HasSubstr("GOMP_SPINCOUNT = '1000'"), HasSubstr("GOMP_SPINCOUNT = '10000'")));
  EXPECT_THAT(settings("GOMP_SPINCOUNT=77"), HasSubstr("GOMP_SPINCOUNT = '77'"));
  EXPECT_THAT(settings("OMP_WAIT_POLICY=passive"), HasSubstr("GOMP_SPINCOUNT = '0'"));
}

// Lets the process, and what it starts, run before all that has no such priority.
class RealTime {
 public:
  RealTime() : is_on_(set(SCHED_FIFO, sched_get_priority_min(SCHED_FIFO))) {}
  ~RealTime() {
    if (is_on_) set(SCHED_OTHER, 0);
  }
  RealTime(const RealTime&) = delete;
  RealTime& operator=(const RealTime&) = delete;
  bool is_on() const { return is_on_; }

 private:
  static bool set(int policy, int priority) {
    const sched_param parameters{.sched_priority = priority};
    return sched_setscheduler(0, policy, &parameters) == 0;
  }
  bool is_on_;
};

TEST_F(Waiting, SpinsAsOnAnIdleMachineWhereOthersHaveToWait) {
  const RealTime real_time;
  if (!real_time.is_on()) GTEST_SKIP() << "this user may not ask for real-time priority";
  EXPECT_THAT(settings("env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY"), HasSubstr("GOMP_SPINCOUNT = '10000'"));
}

}  // namespace
}  // namespace fathom
