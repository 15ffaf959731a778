// The line a person watches while training: in place on a terminal, plain lines at logged steps elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "report/metrics.h"

namespace fathom::report {

struct Progress {
  StepMetrics metrics = {};
  int64_t total_steps = 0;
  double seconds_left = 0;  // negative: not known yet
};

// "step 120/600 20%  loss 1.2345  lr 4.50e-05  3,210 tok/s  ETA 1m23s  memory 1.20 GiB  peak 1.50 GiB".
// Of preferences also "accuracy 75 %  margin 0.123", of rewards. With a "loss_scale" also "scale 32768", and "skipped
// 2" from the first of "skipped_steps" on. width: terminal columns that must not be exceeded; the scale, learning rate,
// peak and memory give way in this order. 0: no limit.
std::string format_progress(const Progress& progress, int64_t width = 0);

// Shows progress after each step, with the speed and the time left as recent steps suggest them.
class ProgressPrinter {
 public:
  using Clock = std::chrono::steady_clock;
  struct Output {
    bool live = false;                               // a terminal: the line in place, at most ten times a second
    std::function<void(std::string_view)> in_place;  // shows a line that the next one replaces
    std::function<void(std::string_view)> line;      // writes a line that stays
    std::function<int64_t()> width;                  // of the terminal, 0: unknown
    std::function<Clock::time_point()> now;
  };
  // This process's stderr.
  static Output standard_error();

  explicit ProgressPrinter(Output output);
  // After an optimizer step that took `seconds` for `tokens` tokens (padding not counted). The time left is filled in
  // here. logged: a step of metrics.jsonl, which leaves a line with the speed as it is given; other steps show in place
  // only, with the speed that recent steps suggest.
  void step(Progress progress, int64_t tokens, double seconds, bool logged);

 private:
  Output output_;
  Clock::time_point shown_{};
  // Sums over steps, each weighing kFading times as much as the one after it.
  static constexpr double kFading = 0.95;
  double steps_ = 0, tokens_ = 0, seconds_ = 0;
};

}  // namespace fathom::report
