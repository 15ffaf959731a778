// The thread is left to itself where the store keeps it, as on a machine that is out of reach.
#include "dist/heart.h"

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace fathom::dist {
namespace {

constexpr std::chrono::milliseconds kBetweenBeats{500};
constexpr std::chrono::seconds kToEnd{1};

}  // namespace

struct Heart::End {
  std::mutex mutex;
  std::condition_variable changed;
  bool has_come = false;
};

Heart::Heart(c10::intrusive_ptr<c10d::Store> store, const std::string& key) : end_(std::make_shared<End>()) {
  std::packaged_task<void()> beating([store = std::move(store), key, end = end_] {
    std::unique_lock lock(end->mutex);
    for (int64_t beat = 0; !end->has_come; ++beat) {
      lock.unlock();
      store->set(key, std::to_string(beat));
      lock.lock();
      end->changed.wait_for(lock, kBetweenBeats, [&] { return end->has_come; });
    }
  });
  has_stopped_ = beating.get_future();
  thread_ = std::thread(std::move(beating));
}

Heart::~Heart() {
  {
    const std::lock_guard lock(end_->mutex);
    end_->has_come = true;
  }
  end_->changed.notify_all();
  if (has_stopped_.wait_for(kToEnd) == std::future_status::ready) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace fathom::dist
