// A store on a machine that is out of reach.
#include "dist/bounded_store.h"

#include <gmock/gmock.h>

#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "base/error.h"

namespace fathom::dist {
namespace {

class Silent : public c10d::HashStore {
 public:
  bool check(const std::vector<std::string>&) override {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return true;
  }
};

TEST(BoundedStore, AnswersAsTheStoreDoes) {
  const auto store = bounded_store("a", c10::make_intrusive<c10d::HashStore>(), std::chrono::seconds(20));
  EXPECT_FALSE(store->check({"key"}));
  store->set("key", "text");
  EXPECT_TRUE(store->check({"key"}));
  EXPECT_FALSE(store->check({"other"}));
}

TEST(BoundedStore, IsNotWaitedForForEver) {
  auto silent = c10::make_intrusive<Silent>();
  const auto store = bounded_store("a", silent, std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(store->check({"key"}), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));  // what asks still needs the test's own class
}

}  // namespace
}  // namespace fathom::dist
