// Times the operators of a step one by one, while they are counted.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "play/arithmetic_count.h"

namespace fathom::play {

// A point in the work of a device, on the stream that this thread computes on; on a CPU a point in time.
class DeviceMark {
 public:
  explicit DeviceMark(at::Device device);
  // Once the device has passed both.
  double seconds_since(const DeviceMark& earlier) const;

 private:
  std::variant<std::chrono::steady_clock::time_point, c10::Event> at_;
};

struct TimedOperator {
  std::string name;
  at::ScalarType type = at::kFloat;
  std::optional<plan::ProductSides> product = std::nullopt;
  std::optional<plan::AttentionSides> attention = std::nullopt;
  int64_t bytes = 0;   // read and written
  double seconds = 0;  // without operators within it
};

// One at a time, as an ArithmeticCount. What two marks alone lie apart is taken off. A GPU that waits for its host
// between operators is timed with its waits: give it so much to do beforehand that it does not.
class OperatorTimer final : public OperatorListener {
 public:
  explicit OperatorTimer(at::Device device) : device_(device) {}
  void starts(const CountedOperator& op) override;
  void ends(int64_t result_bytes) override;
  // Of all that have ended, those left out that move and compute nothing. The device must have done everything.
  std::vector<TimedOperator> take();

 private:
  struct Span {
    TimedOperator op;
    DeviceMark begin;
    std::optional<DeviceMark> end = std::nullopt;
    std::optional<size_t> within = std::nullopt;  // another of spans_
  };
  at::Device device_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<std::pair<DeviceMark, DeviceMark>> idle_;  // with nothing in between
};

}  // namespace fathom::play
