// The pool under random use: no overlap, alignment, consistent lists; reuse; pages given back.
#include "memory/memory_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace fathom::memory {
namespace {

size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * 4096;
}

TEST(MemoryPool, BlocksNeverOverlapAndListsStayConsistent) {
  for (bool large : {false, true}) {
    MemoryPool pool(size_t{4} << 20, large ? size_t{64} << 10 : 128, large);
    std::mt19937_64 random(2);
    std::map<char*, size_t> live;
    size_t requested = 0;
    for (int i = 0; i < 20'000; i++) {
      if (live.empty() || random() % 5 < 3) {
        size_t bytes = 1 + random() % (size_t{1} << (random() % (large ? 23 : 14)));
        auto data = static_cast<char*>(pool.take(bytes));
        ASSERT_NE(data, nullptr);
        ASSERT_EQ(reinterpret_cast<uintptr_t>(data) % MemoryPool::kAlignment, 0u);
        auto after = live.lower_bound(data);
        ASSERT_TRUE(after == live.end() || data + bytes <= after->first);
        ASSERT_TRUE(after == live.begin() || std::prev(after)->first + std::prev(after)->second <= data);
        ASSERT_EQ(MemoryPool::requested_bytes(data), bytes);
        ASSERT_EQ(MemoryPool::owner(data), &pool);
        live[data] = bytes;
        requested += bytes;
        data[0] = data[bytes - 1] = 1;
      } else {
        auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
        requested -= it->second;
        pool.give_back(it->first);
        live.erase(it);
      }
      if (large && live.size() > 60) {
        for (auto& [data, bytes] : live) pool.give_back(data);
        live.clear();
        requested = 0;
      }
      if (i % 50 == 0) pool.check();
      if (i % 333 == 0) pool.trim(requested / 2);
      ASSERT_GE(pool.used_bytes(), requested);
    }
    for (auto& [data, bytes] : live) pool.give_back(data);
    pool.check();
    EXPECT_EQ(pool.used_bytes(), 0u);
  }
}

TEST(MemoryPool, TheSameSizesComeBackFromTheSameMemory) {
  MemoryPool pool(size_t{64} << 20, size_t{64} << 10, true);
  std::vector<void*> first, second;
  for (auto* round : {&first, &second}) {
    for (size_t i = 1; i <= 10; i++) round->push_back(pool.take(i << 20));
    for (void* data : *round) pool.give_back(data);
  }
  EXPECT_EQ(first, second);
}

TEST(MemoryPool, TrimGivesPagesBackToTheSystem) {
  MemoryPool pool(size_t{256} << 20, size_t{64} << 10, true);
  constexpr size_t kBytes = size_t{128} << 20;
  void* data = pool.take(kBytes);
  std::memset(data, 1, kBytes);
  size_t full = resident_bytes();
  pool.give_back(data);
  EXPECT_GE(pool.kept_bytes(), kBytes);
  EXPECT_GT(resident_bytes() + (kBytes >> 4), full) << "freed memory is kept until it is trimmed";
  pool.trim(0);
  EXPECT_EQ(pool.kept_bytes(), 0u);
  EXPECT_LT(resident_bytes() + kBytes * 9 / 10, full);
  pool.check();
}

TEST(MemoryPool, AbsurdRequestsAreRefused) {
  MemoryPool pool(size_t{1} << 20, 128, false);
  EXPECT_EQ(pool.take(SIZE_MAX), nullptr);
  EXPECT_EQ(pool.take(SIZE_MAX / 2), nullptr);
  EXPECT_EQ(pool.take(size_t{1} << 50), nullptr) << "more than an address space";
  pool.check();
}

}  // namespace
}  // namespace fathom::memory
