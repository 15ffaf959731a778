// The hash table against std::unordered_map.
#include "ledger/pointer_table.h"

#include <gtest/gtest.h>

#include <random>
#include <unordered_map>

namespace fathom::ledger {
namespace {

TEST(PointerTable, AgreesWithUnorderedMapOverRandomCalls) {
  std::mt19937_64 random(1);
  PointerTable table;
  std::unordered_map<const void*, uint32_t> expected;
  // Few distinct keys, so that keys come back, neighbours collide and the table grows.
  auto key = [&] { return reinterpret_cast<const void*>((random() % 6000 + 1) * 64); };
  for (uint32_t i = 0; i < 300'000; i++) {
    const void* k = key();
    auto it = expected.find(k);
    if (random() % 2) {
      table.insert(k, i);
      expected[k] = i;
    } else {
      ASSERT_EQ(table.erase(k), it == expected.end() ? PointerTable::kMissing : it->second);
      if (it != expected.end()) expected.erase(it);
    }
    const void* other = key();
    it = expected.find(other);
    ASSERT_EQ(table.find(other), it == expected.end() ? PointerTable::kMissing : it->second);
    ASSERT_EQ(table.size(), expected.size());
  }
}

}  // namespace
}  // namespace fathom::ledger
