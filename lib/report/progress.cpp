// Formats progress and smooths its speed.
#include "report/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/log.h"
#include "base/numbers.h"
#include "report/preference_numbers.h"
#include "report/table.h"

namespace fathom::report {
namespace {

template <typename... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::string format_progress(const Progress& progress, int64_t width) {
  const StepMetrics& metrics = progress.metrics;
  const double share = progress.total_steps > 0
                           ? 100.0 * static_cast<double>(metrics.step) / static_cast<double>(progress.total_steps)
                           : 0;
  const std::string eta = progress.seconds_left < 0 ? std::string(kMissing) : format_duration(progress.seconds_left);
  struct Part {
    std::string text;
    int gives_way;  // order of leaving where the line is too long; 0: stays
  };
  std::vector<Part> parts = {
      {"step " + std::to_string(metrics.step) + "/" + std::to_string(progress.total_steps) + print(" %.0f%%", share),
       0},
      {print("loss %.4f", metrics.loss), 0},
      {print("lr %.2e", metrics.learning_rate), 2},
      {format_count(std::llround(metrics.tokens_per_second)) + " tok/s", 0},
      {"ETA " + eta, 0},
      {"memory " + format_bytes(metrics.live_bytes), 4},
      {"peak " + format_bytes(metrics.peak_bytes), 3},
  };
  if (const auto accuracy = number_of(metrics.more, kRewardAccuracy)) {
    const double margin = number_of(metrics.more, kRewardMargin).value_or(0);
    parts.insert(parts.begin() + 2, Part{print("accuracy %.0f %%  margin %.3g", 100 * *accuracy, margin), 0});
  }
  if (const double skipped = number_of(metrics.more, kSkippedSteps).value_or(0); skipped > 0) {
    parts.insert(parts.begin() + 3, Part{"skipped " + format_count(std::llround(skipped)), 0});
  }
  if (const auto scale = number_of(metrics.more, kLossScale)) {
    parts.insert(parts.begin() + 3, Part{print("scale %g", *scale), 1});
  }
  const auto joined = [&] {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    return line;
  };
  for (int next = 1; next <= 4 && width > 0 && display_width(joined()) > width; ++next) {
    std::erase_if(parts, [next](const Part& part) { return part.gives_way == next; });
  }
  return joined();
}

ProgressPrinter::Output ProgressPrinter::standard_error() {
  return {.live = terminal_is_live(),
          .in_place = log_progress,
          .line = log_info,
          .width =
              [] {
                struct winsize size {};
                return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? int64_t{size.ws_col} : int64_t{0};
              },
          .now = [] { return Clock::now(); }};
}

ProgressPrinter::ProgressPrinter(Output output) : output_(std::move(output)) {}

void ProgressPrinter::step(Progress progress, int64_t tokens, double seconds, bool logged) {
  steps_ = kFading * steps_ + 1;
  tokens_ = kFading * tokens_ + static_cast<double>(tokens);
  seconds_ = kFading * seconds_ + seconds;
  if (!logged) progress.metrics.tokens_per_second = seconds_ > 0 ? tokens_ / seconds_ : 0;
  progress.seconds_left = static_cast<double>(progress.total_steps - progress.metrics.step) * seconds_ / steps_;
  if (logged) {
    output_.line(format_progress(progress, output_.live ? output_.width() : 0));
    return;
  }
  if (!output_.live) return;
  const Clock::time_point now = output_.now();
  if (now - shown_ < std::chrono::milliseconds(100)) return;
  output_.in_place(format_progress(progress, output_.width()));
  shown_ = now;
}

}  // namespace fathom::report
