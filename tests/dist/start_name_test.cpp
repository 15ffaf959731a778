// Ranks that start again beside a store that has seen them before.
#include "dist/start_name.h"

#include <gmock/gmock.h>

#include <future>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"

namespace fathom::dist {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class Starts : public ::testing::Test {
 protected:
  std::future<std::string> begin(int64_t rank, int64_t size) {
    return std::async(std::launch::async,
                      [this, rank, size] { return agree_on_start(store_, rank, size, std::chrono::seconds(20)); });
  }
  std::vector<std::string> start(int64_t size) {
    std::vector<std::future<std::string>> ranks;
    for (int64_t rank = size - 1; rank >= 0; --rank) ranks.push_back(begin(rank, size));
    std::vector<std::string> names;
    for (std::future<std::string>& rank : ranks) names.push_back(rank.get());
    return names;
  }

  c10d::HashStore store_;
};

TEST_F(Starts, AreNamedAlikeByAllRanksAndNewly) {
  const std::vector<std::string> first = start(4), second = start(4), smaller = start(2);
  EXPECT_THAT(first, Each(first.front()));
  EXPECT_THAT(second, Each(second.front()));
  EXPECT_THAT(smaller, Each(smaller.front()));
  EXPECT_NE(first.front(), second.front());
  EXPECT_NE(second.front(), smaller.front());
}

// One rank of the start before had come and was ended with its machine, and its word is still there.
TEST_F(Starts, DoNotTakeARankOfBeforeForTheirOwn) {
  store_.set("start/word/1", {'o', 'l', 'd'});
  std::future<std::string> first = begin(0, 2);
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  std::future<std::string> second = begin(1, 2);
  EXPECT_EQ(second.get(), first.get());
}

TEST_F(Starts, NameWhoHasNotCome) {
  std::future<std::string> second = begin(1, 3);
  try {
    agree_on_start(store_, 0, 3, std::chrono::milliseconds(300));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 2 of 3 has not come"));
  }
  second.get();
}

}  // namespace
}  // namespace fathom::dist
