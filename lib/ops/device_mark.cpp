// Events of LibTorch, which know each device's own.
#include "ops/device_mark.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace fathom::ops {

DeviceMark::DeviceMark(at::Device device) {
  if (!device.is_cuda()) {
    at_ = std::chrono::steady_clock::now();
    return;
  }
  const c10::impl::VirtualGuardImpl of_device(device.type());
  at_.emplace<c10::Event>(device.type(), c10::EventFlag::BACKEND_DEFAULT).record(of_device.getStream(device));
}

bool DeviceMark::passed() const {
  const auto* event = std::get_if<c10::Event>(&at_);
  return event == nullptr || event->query();
}

double DeviceMark::seconds_since(const DeviceMark& earlier) const {
  if (const auto* now = std::get_if<std::chrono::steady_clock::time_point>(&at_)) {
    return std::chrono::duration<double>(*now - std::get<std::chrono::steady_clock::time_point>(earlier.at_)).count();
  }
  constexpr double kMilli = 1e-3;
  return kMilli * std::get<c10::Event>(earlier.at_).elapsedTime(std::get<c10::Event>(at_));
}

}  // namespace fathom::ops
