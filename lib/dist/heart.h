// A sign that this process runs, for those that wonder whether it is gone or still computes.
#pragma once

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fathom::dist {

// Sets `key` to another text twice a second, from a thread of its own, until it is destroyed or the store fails. store:
// a connection that nothing else uses.
class Heart {
 public:
  Heart(c10::intrusive_ptr<c10d::Store> store, const std::string& key);
  ~Heart();
  Heart(const Heart&) = delete;
  Heart& operator=(const Heart&) = delete;

 private:
  struct End;
  std::shared_ptr<End> end_;
  std::future<void> has_stopped_;
  std::thread thread_;
};

}  // namespace fathom::dist
