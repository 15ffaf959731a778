// A line in place on the terminal while something takes longer than a moment.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace fathom::app {

// From two seconds after it is made until it ends, "searching, 3 dry runs, 12 s" each second; nothing where stderr is
// no live terminal.
class Waiting {
 public:
  // unit: of what count() counts, in the singular; empty: nothing is counted.
  explicit Waiting(std::string what, std::string unit = "");
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting();
  void count();

 private:
  void show(std::stop_token stop);

  const std::string what_, unit_;
  std::mutex mutex_;
  std::condition_variable_any ended_;
  int64_t count_ = 0;
  std::jthread thread_;  // the last member: it reads the others
};

}  // namespace fathom::app
