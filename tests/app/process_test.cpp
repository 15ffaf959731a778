// What a shell does to a process: limits, streams that are closed, readers that go away, signals. Whatever the system
// refuses is an error with a remedy, and a run that nobody looks at any more is saved.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Process : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    std::string lines;
    for (int i = 0; i < 40; ++i) lines += Json{{"text", "one and one is " + std::to_string(i)}}.dump() + "\n";
    write("data.jsonl", lines);
    write("run.yaml", "model_name_or_path: " FATHOM_SOURCE_DIR R"(/data/model
device: cpu
num_threads: 1
train_file: data.jsonl
per_device_train_batch_size: 1
max_length: 16
max_steps: 3
method: lora
logging_steps: 1
save_steps: 100000
output_dir: out
)");
  }
  bool has_checkpoint() const {
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
      if (entry.path().filename().string().starts_with("checkpoint-")) return true;
    }
    return false;
  }
};

TEST_F(Process, AFileBeyondTheLimitIsAnError) {
  for (const int blocks : {1, 20, 200}) {  // of 512 bytes: a plan, a report, weights are larger
    fs::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml", "ulimit -f " + std::to_string(blocks) + " && ");
    EXPECT_EQ(outcome.status, 1) << blocks << outcome.errors;
    EXPECT_THAT(outcome.errors, AllOf(HasSubstr("File too large"), HasSubstr("ulimit -f"))) << blocks;
  }
}

// From too little for LibTorch's files, through too little for what it does while it is loaded, to too little to train
// and to enough.
TEST_F(Process, AFullAddressSpaceIsAnErrorThatNamesTheLimit) {
  for (const int kilobytes : {150'000, 385'000, 455'000, 470'000, 500'000, 600'000, 1'500'000, 2'600'000}) {
    const Outcome outcome = run("train run.yaml", "ulimit -v " + std::to_string(kilobytes) + " && ");
    EXPECT_EQ(outcome.status, 1) << kilobytes << outcome.errors;
    EXPECT_THAT(outcome.errors,
                AllOf(StartsWith("error: LibTorch is not loaded"), HasSubstr("address space"), HasSubstr("ulimit -v")))
        << kilobytes;
  }
  const Outcome little = run("train run.yaml", "ulimit -v 2625000 && ");
  EXPECT_EQ(little.status, 1) << little.errors;
  EXPECT_THAT(little.output + little.errors, HasSubstr("Does not fit"));
  EXPECT_FALSE(fs::exists(folder_ / "out"));
  const Outcome enough = run("train run.yaml", "ulimit -v 3500000 && ");
  EXPECT_EQ(enough.status, 0) << enough.errors;
}

// A descriptor that is free is the next file's: of weights, say, into which messages would then be written.
TEST_F(Process, AClosedStreamIsNoFilesNumber) {
  const std::string command = "cd '" + folder_.string() + "' && '" + FATHOM_PROGRAM + "' ";
  EXPECT_EQ(std::system((command + "train run.yaml 2>&- >stdout.txt").c_str()), 0);
  EXPECT_EQ(read_file(folder_ / "out" / "metrics.jsonl")[0], '{');
  EXPECT_EQ(read_file(folder_ / "out" / "config.yaml").find("step 1/3"), std::string::npos);
  EXPECT_EQ(WEXITSTATUS(std::system((command + "formats 1 >&- 2>stderr.txt").c_str())), 1);
  EXPECT_THAT(read_file(folder_ / "stderr.txt"), HasSubstr("could not be written to stdout"));
}

TEST_F(Process, ABudgetThatHoldsNothingIsToldByThePlan) {
  const Outcome outcome = run("train run.yaml memory_budget=1B");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("memory_budget"), Not(HasSubstr("asked for"))));
}

TEST_F(Process, MoreThreadsThanCoresAreWarnedOf) {
  EXPECT_THAT(run("estimate run.yaml").errors, Not(HasSubstr("num_threads")));
  write("threads.yaml", read_file(folder_ / "run.yaml")
                            .replace(read_file(folder_ / "run.yaml").find("num_threads: 1"), 14, "num_threads: 256"));
  EXPECT_THAT(run("estimate threads.yaml").errors, HasSubstr("num_threads is 256 and this process has"));
}

TEST_F(Process, AReaderThatGoesAwaySavesTheRun) {
  const std::string run = "cd '" + folder_.string() + "' && mkfifo pipe && (head -n 1 pipe >/dev/null &) && '" +
                          FATHOM_PROGRAM + "' train run.yaml max_steps=100000 >stdout.txt 2>pipe";
  EXPECT_NE(std::system(run.c_str()), 0);
  EXPECT_TRUE(has_checkpoint());
}

}  // namespace
}  // namespace fathom
