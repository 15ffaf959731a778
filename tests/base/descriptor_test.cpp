// Descriptors close what they hold, once; writes are whole or say why not.
#include "base/descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <thread>

namespace fathom {
namespace {

std::array<Descriptor, 2> make_pipe() {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) != -1; }

TEST(Descriptor, ClosesWhatItHoldsOnce) {
  int value = -1;
  {
    auto [out, in] = make_pipe();
    value = out.get();
    Descriptor moved(std::move(out));
    EXPECT_FALSE(out.is_open());
    EXPECT_TRUE(is_open(value));
    moved.close();
    EXPECT_FALSE(is_open(value));
    EXPECT_FALSE(moved.is_open());
  }
  EXPECT_FALSE(Descriptor().is_open());
}

TEST(WriteWhole, TakesAsManyCallsAsItNeeds) {
  auto [out, in] = make_pipe();
  const std::string content(1 << 20, 'x');  // more than a pipe holds
  std::string received;
  std::thread reader([&, from = out.get()] {
    std::array<char, 4096> part{};
    for (ssize_t got = 0; (got = ::read(from, part.data(), part.size())) > 0;) received.append(part.data(), got);
  });
  EXPECT_TRUE(write_whole(in, content.data(), content.size()));
  in.close();
  reader.join();
  EXPECT_EQ(received, content);
}

TEST(WriteWhole, SaysWhyNot) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.is_open());
  EXPECT_FALSE(write_whole(full, "x", 1));
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_TRUE(write_whole(full, "", 0));
}

}  // namespace
}  // namespace fathom
