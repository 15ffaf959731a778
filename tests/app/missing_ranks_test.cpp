// Ranks that are not started, or not as one of those that are expected, or of another config: each of the others is
// told.
#include "tests/app/several_processes.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// One of two was never started: the other says whom it waits for, long before it gives up.
TEST_F(SeveralProcesses, SayThatTheyWaitForOthers) {
  for (const std::string rank : {"0", "1"}) {
    const std::string port = free_port();
    const Outcome alone =
        run("14 '" FATHOM_PROGRAM "' train run.yaml output_dir=out",
            "WORLD_SIZE=2 RANK=" + rank + " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " ", "timeout");
    EXPECT_THAT(alone.errors, AllOf(HasSubstr("rank " + rank + " of 2 waits at 127.0.0.1:" + port),
                                    HasSubstr("each rank from 0 on must have been started once")));
  }
}

TEST_F(SeveralProcesses, SayWhichSettingsDiffer) {
  const std::string port = free_port();
  const auto rank = [&](const std::string& number, const std::string& keys) {
    return "WORLD_SIZE=2 RANK=" + number + " MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port +
           " '" FATHOM_PROGRAM "' train run.yaml output_dir=out " + keys;
  };
  write("both.sh",
        rank("0", "seed=1") + " & " + rank("1", "seed=2 learning_rate=0.5") + "; status=$?; wait; exit $status\n");
  const Outcome both = run("both.sh", "", "sh");
  EXPECT_NE(both.status, 0);
  EXPECT_THAT(both.errors, AllOf(HasSubstr("rank 1 has another config than rank 0: learning_rate: 0.5 (rank 0: "),
                                 HasSubstr(", seed: 2 (rank 0: 1); all processes must read the same settings")));
}

}  // namespace
}  // namespace fathom
