// What the system refuses comes with something to do about it.
#include "base/system_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

// The message whole, which may have lines of its own.
TEST(SystemError, TellsOfLibTorchsErrorsWithoutBacktraces) {
  const std::string message = "expected 2 rows,\ngot 3 (when x)";
  const std::string raised = "\nException raised from rows at /pytorch/a.cpp:12 (most recent call first):\n";
  const std::string frames = "frame #0: c10::Error::Error(...) + 0x9d (0x7f in libc10.so)\nframe #1: main\n";
  EXPECT_EQ(message_of(std::runtime_error(message + raised + frames)), message);
  EXPECT_EQ(message_of(std::runtime_error("[enforce fail at a.cpp:1] x. \n" + frames)),
            "[enforce fail at a.cpp:1] x. ");
  EXPECT_EQ(message_of(std::runtime_error("of a frame #0: none")), "of a frame #0: none");
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
