// What CPUID says against the operating system's list, which may lack what only virtual machines ask for.
#include "base/narrow_instructions.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace fathom {
namespace {

TEST(NarrowInstructions, AreThoseThatTheSystemLists) {
  std::set<std::string> flags;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    flags.insert(std::istream_iterator<std::string>(words), {});
  }
  if (flags.empty()) GTEST_SKIP() << "this system lists no flags";
  const NarrowInstructions here = narrow_instructions();
  const auto lists = [&](const char* one, const char* other) { return flags.contains(one) || flags.contains(other); };
  EXPECT_TRUE(here.bf16 || !lists("avx512_bf16", "amx_bf16"));
  EXPECT_TRUE(here.fp16 || !lists("avx512_fp16", "amx_fp16"));
  EXPECT_TRUE(flags.contains("avx2") || !(here.bf16 || here.fp16)) << "they come with vectors";
}

}  // namespace
}  // namespace fathom
