// A thread that writes a line each second.
#include "app/waiting.h"

#include <chrono>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "base/numbers.h"

namespace fathom::app {

Waiting::Waiting(std::string what, std::string unit) : what_(std::move(what)), unit_(std::move(unit)) {
  if (terminal_is_live()) thread_ = std::jthread([this](const std::stop_token& stop) { show(stop); });
}

Waiting::~Waiting() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

void Waiting::count() {
  const std::lock_guard lock(mutex_);
  ++count_;
}

void Waiting::show(std::stop_token stop) {
  using std::chrono::seconds;
  bool shown = false;
  std::unique_lock lock(mutex_);
  for (int64_t second = 2;; ++second) {
    ended_.wait_for(lock, stop, seconds(second == 2 ? 2 : 1), [] { return false; });
    if (stop.stop_requested()) break;
    std::string line = what_;
    if (count_ > 0) line += ", " + format_counted(count_, unit_);
    log_progress(line + ", " + format_count(second) + " s");
    shown = true;
  }
  if (shown) log_progress("");  // leaves an empty line, where the results begin
}

}  // namespace fathom::app
