// What the machine says of itself: figures that agree with each other and with what this process does.
#include "app/machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace fathom::app {
namespace {

TEST(Machine, HasACpuAndMemory) {
  const Cpu cpu = this_cpu();
  EXPECT_GE(cpu.cores, 1);
  EXPECT_LE(cpu.cores, sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_LE(available_memory_bytes(), total_memory_bytes());
  EXPECT_EQ(total_memory_bytes() / 1024, sysconf(_SC_PHYS_PAGES) * (sysconf(_SC_PAGESIZE) / 1024));
  EXPECT_GT(memory_limit_bytes().value_or(1), 0);
}

TEST(Machine, ResidentMemoryFollowsWhatIsTouched) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  constexpr int64_t kSlack = int64_t{4} << 20;
  const int64_t before = resident_bytes();
  {
    const auto block = std::make_unique<char[]>(kBytes);
    std::memset(block.get(), 1, kBytes);
    EXPECT_NEAR(static_cast<double>(resident_bytes() - before), kBytes, kSlack);
  }
  EXPECT_LT(resident_bytes() - before, kSlack);
  EXPECT_GE(peak_resident_bytes(), before + kBytes - kSlack);
}

}  // namespace
}  // namespace fathom::app
