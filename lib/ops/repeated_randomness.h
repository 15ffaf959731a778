// The same random numbers again, in a backward pass that computes again what the forward pass drew.
#pragma once

#include <ATen/core/Generator.h>

#include <memory>
#include <optional>

namespace at {
struct CPUGeneratorImpl;
}

namespace fathom::ops {

// Where a device's default generator stands, without a tensor: Generator::get_state() would make one for each segment.
class RandomPosition {
 public:
  static RandomPosition now(at::Device device);
  void restore(at::Device device) const;

 private:
  std::shared_ptr<at::CPUGeneratorImpl> cpu_;
  uint64_t seed_ = 0, offset_ = 0;
};

// While alive the default generator repeats what followed `position`; afterwards it is where it was.
class RepeatedRandomness {
 public:
  RepeatedRandomness(at::Device device, const std::optional<RandomPosition>& position);
  ~RepeatedRandomness();
  RepeatedRandomness(const RepeatedRandomness&) = delete;
  RepeatedRandomness& operator=(const RepeatedRandomness&) = delete;

 private:
  at::Device device_;
  std::optional<RandomPosition> resume_;
};

}  // namespace fathom::ops
