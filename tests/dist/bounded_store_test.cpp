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
  std::vector<uint8_t> get(const std::string&) override {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    return {};
  }
};

TEST(BoundedStore, AnswersAsTheStoreDoes) {
  const auto store = bounded_store("a", c10::make_intrusive<c10d::HashStore>(), std::chrono::seconds(20));
  EXPECT_FALSE(store->check({"key"}));
  store->set("key", "text");
  EXPECT_TRUE(store->check({"key"}));
  EXPECT_FALSE(store->check({"other"}));
  EXPECT_EQ(store->get_to_str("key"), "text");
  store->wait({"key"}, std::chrono::seconds(1));
  EXPECT_THROW(store->wait({"other"}, std::chrono::milliseconds(50)), std::exception);
  EXPECT_TRUE(store->check({"key"}));  // one that only has not come leaves the store as it is
  EXPECT_TRUE(store->deleteKey("key"));
  EXPECT_FALSE(store->check({"key"}));
}

TEST(BoundedStore, ThatHasNotAnsweredIsNotAskedAgain) {
  auto silent = c10::make_intrusive<Silent>();
  silent->setTimeout(std::chrono::milliseconds(100));
  const auto store = bounded_store("a", silent, std::chrono::milliseconds(50));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(store->get("key"), Error);
  EXPECT_THROW(store->set("key", "text"), Error);
  EXPECT_THROW(store->deleteKey("key"), Error);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(900));
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
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
