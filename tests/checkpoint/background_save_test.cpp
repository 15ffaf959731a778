// A save in the background: when it holds the training up, and where its failures come out.
#include "checkpoint/background_save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

#include "base/error.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

bool is_ready(const std::future<void>& future) { return future.wait_for(20ms) == std::future_status::ready; }

TEST(BackgroundSave, LetsGoOfTheStateBeforeItEnds) {
  BackgroundSave saving;
  saving.wait_until_read();  // nothing is being saved
  EXPECT_FALSE(saving.take_finished());
  std::promise<void> read, end;
  saving.start([&](const auto& state_was_read) {
    read.get_future().wait();
    state_was_read();
    end.get_future().wait();
    return "checkpoint-1";
  });
  const auto waiting = std::async(std::launch::async, [&] { saving.wait_until_read(); });
  EXPECT_FALSE(is_ready(waiting)) << "the state is still being read";
  read.set_value();
  waiting.wait();
  EXPECT_FALSE(saving.take_finished()) << "the rest of the write goes on";
  end.set_value();
  saving.wait_until_written();
  const auto finished = saving.take_finished();
  ASSERT_TRUE(finished);
  EXPECT_EQ(finished->folder, "checkpoint-1");
  EXPECT_GT(finished->seconds, 0.01);
  EXPECT_FALSE(saving.take_finished()) << "each is told once";
}

TEST(BackgroundSave, AFailureLetsGoAndIsThrownOnce) {
  BackgroundSave saving;
  saving.start([](const auto&) -> std::filesystem::path { throw Error("the disk is full"); });
  saving.wait_until_read();
  saving.wait_until_written();
  EXPECT_THROW(saving.take_finished(), Error);
  EXPECT_FALSE(saving.take_finished());
  saving.start([](const auto&) { return "checkpoint-2"; });
  saving.wait_until_written();
  EXPECT_EQ(saving.take_finished()->folder, "checkpoint-2");
}

TEST(BackgroundSave, EndsBeforeItIsDestroyedAndLosesNoFailure) {
  std::atomic<bool> ended = false;
  ::testing::internal::CaptureStderr();
  {
    BackgroundSave saving;
    saving.start([&](const auto&) -> std::filesystem::path {
      std::this_thread::sleep_for(30ms);
      ended = true;
      throw Error("the disk is full");
    });
  }
  EXPECT_TRUE(ended);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("error: the disk is full"));
}

TEST(BackgroundSave, FreesWhatTheWriteHolds) {
  BackgroundSave saving;
  auto held = std::make_shared<int>(1);
  saving.start([held](const auto&) { return "checkpoint-1"; });
  saving.wait_until_written();
  EXPECT_EQ(held.use_count(), 1) << "before anyone asks for the result";
}

}  // namespace
}  // namespace fathom::checkpoint
