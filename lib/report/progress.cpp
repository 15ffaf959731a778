// Formats progress and times the steps.
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

std::string format_duration(double seconds) {
  // The limit keeps the conversion defined; nobody waits that long.
  const auto whole = static_cast<long long>(std::clamp(std::round(seconds), 0.0, 1e12));
  if (whole < 60) return print("%llds", whole);
  if (whole < 3600) return print("%lldm%02llds", whole / 60, whole % 60);
  if (whole < 86400) return print("%lldh%02lldm", whole / 3600, whole % 3600 / 60);
  return print("%lldd%02lldh", whole / 86400, whole % 86400 / 3600);
}

std::string format_progress(const Progress& progress, int64_t width) {
  const double share = progress.total_steps > 0
                           ? 100.0 * static_cast<double>(progress.step) / static_cast<double>(progress.total_steps)
                           : 0;
  const std::string eta = progress.seconds_left < 0 ? std::string(kMissing) : format_duration(progress.seconds_left);
  struct Part {
    std::string text;
    int gives_way;  // order of leaving where the line is too long; 0: stays
  };
  std::vector<Part> parts = {
      {"step " + std::to_string(progress.step) + "/" + std::to_string(progress.total_steps) + print(" %.0f%%", share),
       0},
      {print("loss %.4f", progress.loss), 0},
      {print("lr %.2e", progress.learning_rate), 1},
      {format_count(std::llround(progress.tokens_per_second)) + " tok/s", 0},
      {"ETA " + eta, 0},
      {"memory " + format_bytes(progress.live_bytes), 3},
      {"peak " + format_bytes(progress.peak_bytes), 2},
  };
  const auto joined = [&] {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : "  ") + part.text;
    return line;
  };
  for (int next = 1; next <= 3 && width > 0 && display_width(joined()) > width; ++next) {
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

ProgressPrinter::ProgressPrinter(int64_t total_steps, Output output)
    : total_steps_(total_steps), output_(std::move(output)), step_started_(output_.now()) {}

void ProgressPrinter::step(Progress progress, int64_t tokens, bool logged) {
  const Clock::time_point now = output_.now();
  steps_ = kFading * steps_ + 1;
  tokens_ = kFading * tokens_ + static_cast<double>(tokens);
  seconds_ = kFading * seconds_ + std::chrono::duration<double>(now - step_started_).count();
  step_started_ = now;
  progress.total_steps = total_steps_;
  progress.tokens_per_second = seconds_ > 0 ? tokens_ / seconds_ : 0;
  progress.seconds_left = static_cast<double>(total_steps_ - progress.step) * seconds_ / steps_;
  if (logged) {
    output_.line(format_progress(progress));
  } else if (output_.live && now - shown_ >= std::chrono::milliseconds(100)) {
    output_.in_place(format_progress(progress, output_.width()));
    shown_ = now;
  }
}

void ProgressPrinter::restart_clock() { step_started_ = output_.now(); }

}  // namespace fathom::report
