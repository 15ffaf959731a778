// What the system refuses comes with something to do about it.
#include "base/system_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>

namespace fathom {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(SystemError, SaysWhatWhyAndWhatToDo) {
  EXPECT_STREQ(system_error("cannot write 'x'", EFBIG).what(),
               "cannot write 'x': File too large; the size of files is limited here: raise the limit (ulimit -f)");
  EXPECT_STREQ(system_error("cannot read 'x'", EIO).what(), "cannot read 'x': Input/output error");
  for (const int code : {ENOENT, EACCES, EPERM, EROFS, ENOSPC, EDQUOT, ELOOP, EMFILE, ENFILE, ENOMEM, EAGAIN}) {
    EXPECT_NE(remedy_for(code), "") << code;
  }
}

TEST(SystemError, TellsOfFilesInOurWords) {
  const auto code = std::make_error_code(std::errc::too_many_symbolic_link_levels);
  const std::string reason = "Too many levels of symbolic links";
  using Failure = std::filesystem::filesystem_error;
  EXPECT_EQ(message_of(Failure("status", "a", code)), "a: " + reason);
  EXPECT_EQ(message_of(Failure("rename", "a", "b", code)), "a and b: " + reason);
  EXPECT_EQ(message_of(Failure("current path", code)), reason);
  EXPECT_EQ(message_of(Error("what", "remedy")), "what; remedy");
}

TEST(SystemError, TellsOfALimitedAddressSpace) {
  struct rlimit before {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  if (before.rlim_cur != RLIM_INFINITY) GTEST_SKIP() << "this process is limited already";
  EXPECT_EQ(describe_address_space(), "");
  EXPECT_EQ(remedy_for(ENOMEM), "free some memory");
  struct rlimit limited = before;
  limited.rlim_cur = rlim_t{1} << 40;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  const std::string space = describe_address_space(), remedy = remedy_for(ENOMEM);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &before), 0);
  EXPECT_THAT(space, AllOf(HasSubstr("limited to 1.00 TiB"), HasSubstr("ulimit -v")));
  EXPECT_EQ(remedy, space);
}

}  // namespace
}  // namespace fathom
