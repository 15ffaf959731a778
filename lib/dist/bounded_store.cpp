// A thread asks, and is left to itself where it hears nothing; it keeps the store.
#include "dist/bounded_store.h"

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "base/error.h"

namespace fathom::dist {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Keys = std::vector<std::string>;
using Bytes = std::vector<uint8_t>;

constexpr char kSilent[] = "the store of addresses does not answer";

class BoundedStore final : public c10d::PrefixStore {
  template <typename Question>
  auto ask(Milliseconds patience, Question question) {
    if (silent_) throw Error(kSilent);
    std::packaged_task<decltype(question(*asked_))()> asking(
        [asked = asked_, question = std::move(question)] { return question(*asked); });
    auto answer = asking.get_future();
    std::thread asker(std::move(asking));
    if (answer.wait_for(patience) != std::future_status::ready) {
      asker.detach();
      silent_ = true;
      throw Error(kSilent);
    }
    asker.join();  // what it has of the store must not end after the process has begun to
    return answer.get();
  }

 public:
  BoundedStore(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store, Milliseconds patience)
      : PrefixStore(prefix, std::move(store)),
        asked_(c10::make_intrusive<c10d::PrefixStore>(prefix, getUnderlyingStore())),
        patience_(patience) {}

  bool check(const Keys& keys) override {
    return ask(patience_, [keys](c10d::Store& store) { return store.check(keys); });
  }
  void set(const std::string& key, const Bytes& value) override {
    ask(longest(), [key, value](c10d::Store& store) { store.set(key, value); });
  }
  Bytes get(const std::string& key) override {
    return ask(longest(), [key](c10d::Store& store) { return store.get(key); });
  }
  std::vector<Bytes> multiGet(const Keys& keys) override {
    return ask(longest(), [keys](c10d::Store& store) { return store.multiGet(keys); });
  }
  void wait(const Keys& keys) override {
    ask(longest(), [keys](c10d::Store& store) { store.wait(keys); });
  }
  void wait(const Keys& keys, const Milliseconds& timeout) override {
    ask(timeout + patience_, [keys, timeout](c10d::Store& store) { store.wait(keys, timeout); });
  }
  bool deleteKey(const std::string& key) override {
    return ask(longest(), [key](c10d::Store& store) { return store.deleteKey(key); });
  }

 private:
  Milliseconds longest() { return getUnderlyingStore()->getTimeout() + patience_; }

  c10::intrusive_ptr<c10d::Store> asked_;
  Milliseconds patience_;
  std::atomic<bool> silent_ = false;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> bounded_store(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store,
                                              std::chrono::milliseconds patience) {
  return c10::make_intrusive<BoundedStore>(prefix, std::move(store), patience);
}

}  // namespace fathom::dist
