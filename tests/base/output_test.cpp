// What reaches stdout: text shown, and a result as it is where no terminal reads it.
#include "base/output.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/descriptor.h"

namespace fathom {
namespace {

constexpr const char* kHostile = "a\x1b[2J\u202E";
constexpr const char* kShown = "a\\x1b[2J\\u202e";

template <typename Action>
std::string captured(const Action& action) {
  ::testing::internal::CaptureStdout();
  action();
  return ::testing::internal::GetCapturedStdout();
}

// What arrives at a terminal that takes stdout's place.
template <typename Action>
std::string captured_in_terminal(const Action& action) {
  const Descriptor master(::posix_openpt(O_RDWR | O_NOCTTY)), before(::dup(STDOUT_FILENO));
  if (::grantpt(master.get()) != 0 || ::unlockpt(master.get()) != 0) return "no terminal";
  const Descriptor terminal(::open(::ptsname(master.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
  ::dup2(terminal.get(), STDOUT_FILENO);
  action();
  ::dup2(before.get(), STDOUT_FILENO);
  std::array<char, 256> text{};
  const ssize_t got = ::read(master.get(), text.data(), text.size());
  return {text.data(), static_cast<size_t>(got)};
}

TEST(Output, ShowsControlCharactersWhereverItGoes) {
  EXPECT_EQ(captured([] { print(kHostile); }), kShown);
  EXPECT_EQ(captured_in_terminal([] { print(kHostile); }), kShown);
  EXPECT_EQ(captured([] { print_dim(kHostile); }), kShown);
}

TEST(Output, LeavesAResultAsItIsWhereNoTerminalReadsIt) {
  EXPECT_EQ(captured([] { print_verbatim(kHostile); }), kHostile);
  EXPECT_EQ(captured_in_terminal([] { print_verbatim(kHostile); }), kShown);
}

TEST(Output, ColoursItsOwnAlone) {
  ASSERT_EQ(::setenv("TERM", "xterm", 1) + ::unsetenv("NO_COLOR"), 0);
  EXPECT_EQ(captured_in_terminal([] { print_dim(kHostile); }), "\033[2m" + std::string(kShown) + "\033[0m");
  ASSERT_EQ(::setenv("NO_COLOR", "1", 1), 0);
  EXPECT_EQ(captured_in_terminal([] { print_dim(kHostile); }), kShown);
}

}  // namespace
}  // namespace fathom
