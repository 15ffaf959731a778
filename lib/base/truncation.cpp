// A table of ranges that a signal handler can read without locks.
#include "base/truncation.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "base/terminal.h"

namespace fathom {
namespace {

struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};  // end 0: free
  std::array<char, 1024> message{};         // written before `end`
};

std::mutex table_mutex;  // of those who write
std::array<Range, 1024> table;
struct sigaction before;

void on_bus_error(int signal, siginfo_t* information, void* context) {
  const auto at = reinterpret_cast<uintptr_t>(information->si_addr);
  for (const Range& range : table) {
    if (at < range.begin.load() || at >= range.end.load()) continue;
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, range.message.data(), std::strlen(range.message.data()));
    ::_exit(1);
  }
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(signal, information, context);
  } else {
    ::sigaction(SIGBUS, &before, nullptr);  // the access is tried again
  }
}

void install() {
  struct sigaction action = {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &before);
}

}  // namespace

void watch_for_truncation(const std::byte* first, size_t count, const std::string& path) {
  static std::once_flag installed;
  std::call_once(installed, install);
  constexpr size_t kLongestPath = 800;
  const std::string shown = shown_in_terminal(path);
  const std::string message = "error: '" + (shown.size() > kLongestPath ? shown.substr(0, kLongestPath) + "…" : shown) +
                              "' was truncated by another process while it was read; restore it, and start again\n";
  const std::lock_guard lock(table_mutex);
  const auto free = std::find_if(table.begin(), table.end(), [](const Range& range) { return range.end.load() == 0; });
  if (free == table.end()) return;
  std::copy_n(message.c_str(), message.size() + 1, free->message.begin());
  const auto begin = reinterpret_cast<uintptr_t>(first);
  free->begin = begin;
  free->end = begin + count;
}

void watch_no_longer(const std::byte* first) {
  const std::lock_guard lock(table_mutex);
  for (Range& range : table) {
    if (range.begin.load() == reinterpret_cast<uintptr_t>(first)) range.end = 0, range.begin = 0;
  }
}

}  // namespace fathom
