// Times the operators of a step one by one, while they are counted.
#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ops/device_mark.h"
#include "play/arithmetic_count.h"

namespace fathom::play {

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
    ops::DeviceMark begin;
    std::optional<ops::DeviceMark> end = std::nullopt;
    std::optional<size_t> within = std::nullopt;  // another of spans_
  };
  at::Device device_;
  std::mutex mutex_;
  std::vector<Span> spans_;
  std::vector<std::pair<ops::DeviceMark, ops::DeviceMark>> idle_;  // with nothing in between
};

}  // namespace fathom::play
