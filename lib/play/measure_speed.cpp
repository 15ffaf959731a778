// Times steps of reference models; what matrix products and attention do not take is everything else.
#include "play/measure_speed.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <set>

#include "base/seconds_since.h"
#include "play/arithmetic_count.h"
#include "play/reference_model.h"

namespace fathom::play {
namespace {

constexpr int64_t kRows = 4, kLength = 128;
// Plays of a step; the fastest counts: the first takes memory, others wait for their turn on the machine.
constexpr int kMostPlays = 5;
constexpr double kLongEnough = 5;  // seconds

ReferenceShape shape_of(int64_t width) {
  const int64_t head_dim = std::min<int64_t>(64, width / 4), heads = width / head_dim;
  return {width, heads, heads / 2, head_dim, width * 11 / 4, 4 * width};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

plan::MeasuredSpeed measure(int64_t width, bool narrow, const train::Placement& placement) {
  config::RunConfig config;
  config.bf16 = narrow;
  ReferenceTraining training(config, shape_of(width), kRows, kLength, placement);
  plan::Arithmetic work;
  double whole = std::numeric_limits<double>::max(), matrix = 0, attention = 0, spent = 0;
  for (int i = 0; i < kMostPlays && spent < kLongEnough; ++i) {
    const ArithmeticCount count(placement.device.type());
    const double seconds = seconds_of([&] { training.step(); });
    spent += seconds;
    if (seconds >= whole) continue;
    whole = seconds;
    work = count.sum();
    matrix = count.matrix_seconds();
    attention = count.attention_seconds();
  }
  const double rest = std::max(whole - matrix - attention, 0.01 * whole);
  return {at::get_num_threads(),
          narrow,
          width,
          static_cast<double>(work.matrix_flops) / matrix,
          static_cast<double>(work.attention_flops) / attention,
          static_cast<double>(work.bytes_moved) / rest};
}

class ThreadCount {
 public:
  ThreadCount() : before_(at::get_num_threads()) {}
  ~ThreadCount() { at::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  int before() const { return before_; }

 private:
  int before_;
};

}  // namespace

std::vector<plan::MeasuredSpeed> measure_speeds(const train::Placement& placement,
                                                const std::function<void(const plan::MeasuredSpeed&)>& watch) {
  const ThreadCount restored;
  std::vector<plan::MeasuredSpeed> speeds;
  for (const int threads : std::set<int>{1, restored.before()}) {
    at::set_num_threads(threads);
    for (const bool narrow : {false, true}) {
      for (const int64_t width : {128, 384, 1024}) {
        speeds.push_back(measure(width, narrow, placement));
        if (watch) watch(speeds.back());
      }
    }
  }
  return speeds;
}

}  // namespace fathom::play
