// Logs: what a checkpoint knew of stays, anything else is told and kept apart, and what cannot be written costs no run.
#include "report/run_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/file.h"

namespace fathom::report {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(Crc32c, HasTheKnownCheckValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);            // the catalogue's
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(crc32c("6789", crc32c("12345")), 0xe3069283u);
}

class RunLogTest : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  // Of a log of two entries, the mark that a checkpoint has of the first; a third was torn.
  LogMark first_of_two() const {
    RunLog log(file_, {});
    log.append("one\n");
    const LogMark mark = log.mark();
    log.append("two\n");
    std::ofstream(file_, std::ios::app) << "thr";
    return mark;
  }
  // What is said when the log is opened so, and an entry appended.
  std::string warned(const LogMark& kept) const {
    ::testing::internal::CaptureStderr();
    RunLog log(file_, kept);
    log.append("new\n");
    EXPECT_EQ(log.mark().bytes, static_cast<int64_t>(fs::file_size(file_)));
    EXPECT_EQ(log.failure(), "");
    return ::testing::internal::GetCapturedStderr();
  }

  fs::path folder_ = fs::temp_directory_path() / ("fathom-run-log-" + std::to_string(::getpid()));
  fs::path file_ = folder_ / "events.out.tfevents.x", other_ = folder_ / "abandoned-events.out.earlier.x";
};

TEST_F(RunLogTest, GoesOnBehindWhatTheCheckpointKnew) {
  const LogMark mark = first_of_two();
  EXPECT_EQ(warned(mark), "");
  EXPECT_EQ(read_file(file_), "one\nnew\n");
  EXPECT_EQ(warned({.bytes = 4, .check = std::nullopt}), "") << "of an earlier version";
  EXPECT_EQ(read_file(file_), "one\nnew\n");
}

TEST_F(RunLogTest, AMissingOneBeginsAnewAndSaysSo) {
  const LogMark mark = first_of_two();
  fs::remove(file_);
  EXPECT_THAT(warned(mark), AllOf(HasSubstr("warning: " + file_.string() + " is not there"), HasSubstr("4 bytes")));
  EXPECT_EQ(read_file(file_), "new\n");
  EXPECT_FALSE(fs::exists(other_));
}

TEST_F(RunLogTest, AnotherOneIsKeptApart) {
  const LogMark mark = first_of_two();
  for (const std::string content : {"on", "owe\n", "another run's\n"}) {  // shorter, as long, longer
    std::ofstream(file_, std::ios::trunc) << content;
    EXPECT_THAT(warned(mark), AllOf(HasSubstr(file_.string() + " is not that of the run"), HasSubstr(other_.string())));
    EXPECT_EQ(read_file(file_), "new\n");
    const fs::path kept = other_.string() + (content == "on" ? "" : content == "owe\n" ? ".2" : ".3");
    EXPECT_EQ(read_file(kept), content);
  }
}

TEST_F(RunLogTest, WhatCannotBeOpenedIsRefused) {
  EXPECT_THROW(RunLog(folder_, {}), Error) << "a folder";
  EXPECT_THROW(RunLog(folder_ / "missing" / "log", {}), Error);
}

// A limit of the process stands for the end of a disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes_of_a_file) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    struct rlimit limited = before_;
    limited.rlim_cur = bytes_of_a_file;
    ::setrlimit(RLIMIT_FSIZE, &limited);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, ignored_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*ignored_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit before_ = {};
};

TEST_F(RunLogTest, WhatCannotBeWrittenIsKeptAndTheNextEntryIsWhole) {
  RunLog log(file_, {});
  const std::string first = std::string(4095, '1') + "\n";  // longer than what is told, which is in a file, too
  log.append(first);
  ::testing::internal::CaptureStderr();
  {
    const FullDisk full(4100);
    log.append("two, of which half is written\n");
    log.append("three\n");
  }
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr(file_.string() + ": cannot be written: File too large; training goes on"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << "told once";
  EXPECT_THAT(log.failure(), HasSubstr("File too large, and 1 time more"));
  log.append("four\n");
  EXPECT_EQ(read_file(file_), first + "four\n");
  EXPECT_EQ(log.mark().bytes, 4101);
}

TEST_F(RunLogTest, WhatItCannotBeginWithIsRefusedAndNotTold) {
  RunLog log(file_, {});
  ::testing::internal::CaptureStderr();
  {
    const FullDisk full(4);
    EXPECT_THROW(log.begin_with("first\n"), Error);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(log.failure(), "");
}

TEST_F(RunLogTest, AFileThatIsRemovedIsMissed) {
  RunLog log(file_, {});
  log.append("one\n");
  fs::remove(file_);
  ::testing::internal::CaptureStderr();
  log.append("two\n");
  ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log.failure(), HasSubstr("was removed while the run wrote it"));
}

}  // namespace
}  // namespace fathom::report
