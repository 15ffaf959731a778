// LibTorch's own errors as they are told.
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/system_error.h"

namespace fathom::ledger {
namespace {

using ::testing::HasSubstr;

TEST(Message, IsThatOfLibTorchWithoutItsBacktrace) {
  try {
    TORCH_CHECK(false, "one line\nand another");
  } catch (const c10::Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("frame #"));
    EXPECT_EQ(message_of(error), error.what_without_backtrace());
  }
  try {
    CAFFE_ENFORCE_EQ(1, 2, "of two");
  } catch (const c10::Error& error) {
    EXPECT_EQ(message_of(error), error.what_without_backtrace());
    EXPECT_THAT(message_of(error), HasSubstr("of two"));
  }
}

}  // namespace
}  // namespace fathom::ledger
