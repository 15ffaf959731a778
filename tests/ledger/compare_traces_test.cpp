// Traces of runs against those that were planned: what counts as the same.
#include "ledger/compare_traces.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace fathom::ledger {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CompareTraces : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(folder_); }
  void TearDown() override { fs::remove_all(folder_); }

  EventComparison compare(const std::string& measured, bool segments = true) {
    write_file_atomically(folder_ / "planned", kPlanned);
    write_file_atomically(folder_ / "measured", measured);
    return compare_traces(folder_ / "planned", folder_ / "measured", segments);
  }

  static constexpr char kPlanned[] = "segment_alloc 2097152 0 4096\nalloc 0 512 0\nfree_requested 0 512 0\n";
  const fs::path folder_ = fs::temp_directory_path() / ("traces-" + std::to_string(::getpid()));
};

TEST_F(CompareTraces, AreTheSameWhateverTheAddresses) {
  const EventComparison same = compare("segment_alloc 2097152 0 8192\nalloc 0 512 0\nfree_requested 0 512 0\n");
  EXPECT_EQ(same.planned, 3);
  EXPECT_EQ(same.first_difference, "");
  EXPECT_EQ(describe(same), "3 events of the allocator, each as planned");
}

TEST_F(CompareTraces, SayWhatDiffersFirst) {
  const EventComparison other = compare("segment_alloc 2097152 0 4096\nalloc 0 1024 0\nfree_requested 0 1024 0\n");
  EXPECT_EQ(other.first_difference, "event 1: planned 'alloc 0 512 0', measured 'alloc 0 1024 0'");
  EXPECT_THAT(describe(other), HasSubstr("3 events of the allocator, not as planned: event 1"));
  EXPECT_EQ(compare("segment_alloc 2097152 0 4096\nalloc 0 512 0\n").first_difference,
            "event 2: planned 'free_requested 0 512 0', measured 'the end'");
}

TEST_F(CompareTraces, CountSegmentsOnlyWhereAsked) {
  const std::string larger = "segment_alloc 4194304 0 4096\nalloc 0 512 0\nfree_requested 0 512 0\n";
  EXPECT_EQ(compare(larger).first_difference,
            "event 0: planned 'segment_alloc 2097152 0', measured 'segment_alloc 4194304 0'");
  const EventComparison blocks = compare(larger, /*segments=*/false);
  EXPECT_EQ(blocks.planned, 2);
  EXPECT_EQ(blocks.first_difference, "");
}

// When the plan is at its end, the run gives its tensors back; anything that it takes then was not planned.
TEST_F(CompareTraces, MayGiveBackBehindThePlan) {
  EXPECT_EQ(compare(kPlanned + std::string("free_completed 0 512 0\n")).first_difference, "");
  EXPECT_EQ(compare(kPlanned + std::string("free_completed 0 512 0\nalloc 1 8 0\n")).first_difference,
            "after all that was planned, measured 'alloc 1 8 0'");
}

TEST_F(CompareTraces, MustBeThere) { EXPECT_THROW(compare_traces(folder_ / "none", folder_ / "none", true), Error); }

}  // namespace
}  // namespace fathom::ledger
