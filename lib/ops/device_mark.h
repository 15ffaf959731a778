// A point in the work of a device, from which time is measured.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>

#include <chrono>
#include <variant>

namespace fathom::ops {

// On a GPU in what was queued so far on the stream that this thread computes on; elsewhere a point in time.
class DeviceMark {
 public:
  explicit DeviceMark(at::Device device);
  // Whether the device has done all that lies before it.
  bool passed() const;
  // Once the device has passed both.
  double seconds_since(const DeviceMark& earlier) const;

 private:
  std::variant<std::chrono::steady_clock::time_point, c10::Event> at_;
};

}  // namespace fathom::ops
