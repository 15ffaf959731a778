// Autocast's state on this thread, and explicit casts of weights through LibTorch's own cache.
#include "ops/autocast.h"

#include <ATen/autocast_mode.h>

#include "ledger/ledger.h"

namespace fathom::ops {

AutocastScope::AutocastScope(c10::DeviceType device, bool enabled, at::ScalarType dtype)
    : device_(device),
      enabled_(enabled),
      previous_enabled_(at::autocast::is_autocast_enabled(device)),
      previous_dtype_(at::autocast::get_autocast_dtype(device)) {
  if (!enabled_) return;
  at::autocast::set_autocast_enabled(device_, true);
  at::autocast::set_autocast_dtype(device_, dtype);
  at::autocast::increment_nesting();
}

AutocastScope::~AutocastScope() {
  if (!enabled_) return;
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_dtype(device_, previous_dtype_);
  at::autocast::set_autocast_enabled(device_, previous_enabled_);
}

ComputeScope::ComputeScope(at::Device device, at::ScalarType storage)
    : device_(device.type()),
      autocast_(at::autocast::is_autocast_enabled(device_)),
      dtype_(autocast_ ? at::autocast::get_autocast_dtype(device_) : storage) {
  if (autocast_) at::autocast::set_autocast_enabled(device_, false);
}

ComputeScope::~ComputeScope() {
  if (autocast_) at::autocast::set_autocast_enabled(device_, true);
}

at::Tensor ComputeScope::weight(const at::Tensor& stored) const {
  if (!autocast_ || stored.scalar_type() == dtype_) return stored;
  const ledger::ClaimScope copies_of_weights(ledger::Component::kFunctionality);
  return at::autocast::cached_cast(dtype_, stored, device_);
}

}  // namespace fathom::ops
