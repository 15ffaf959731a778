// A thread asks, and is left to itself where it hears nothing; it keeps the store.
#include "dist/bounded_store.h"

#include <future>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>
#include <vector>

#include "base/error.h"

namespace fathom::dist {
namespace {

class BoundedStore final : public c10d::PrefixStore {
 public:
  BoundedStore(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store, std::chrono::milliseconds patience)
      : PrefixStore(prefix, std::move(store)),
        asked_(c10::make_intrusive<c10d::PrefixStore>(prefix, getUnderlyingStore())),
        patience_(patience) {}

  bool check(const std::vector<std::string>& keys) override {
    std::packaged_task<bool()> ask([asked = asked_, keys] { return asked->check(keys); });
    std::future<bool> answer = ask.get_future();
    std::thread(std::move(ask)).detach();
    if (answer.wait_for(patience_) != std::future_status::ready) throw Error("the store of addresses does not answer");
    return answer.get();
  }

 private:
  c10::intrusive_ptr<c10d::Store> asked_;
  std::chrono::milliseconds patience_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> bounded_store(const std::string& prefix, c10::intrusive_ptr<c10d::Store> store,
                                              std::chrono::milliseconds patience) {
  return c10::make_intrusive<BoundedStore>(prefix, std::move(store), patience);
}

}  // namespace fathom::dist
