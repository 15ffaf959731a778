// Autocast's state on this thread, and explicit casts of weights through LibTorch's own cache.
#include "ops/autocast.h"

#include <ATen/autocast_mode.h>

#include <atomic>
#include <vector>

#include "ledger/ledger.h"

namespace fathom::ops {
namespace {

// The copies that LibTorch's cache keeps, in the order in which they were made. The cache is a hash table by address
// and would release them in an order that differs from process to process; the next allocations would find other gaps.
thread_local std::vector<at::Tensor> kept_copies;

std::atomic<bool> casts_are_kept = true;

void release_copies() {
  at::autocast::clear_cache();
  for (at::Tensor& copy : kept_copies) copy.reset();
  kept_copies.clear();
}

}  // namespace

void keep_casts(bool on) { casts_are_kept = on; }
bool keeps_casts() { return casts_are_kept; }

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
  if (at::autocast::decrement_nesting() == 0) release_copies();
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

at::Tensor ComputeScope::weight(const at::Tensor& stored, const at::Tensor& cast) const {
  if (cast.defined()) {
    TORCH_INTERNAL_ASSERT(cast.scalar_type() == dtype_, "a weight is there as ", cast.scalar_type(), " alone");
    return cast;
  }
  if (!autocast_ || stored.scalar_type() == dtype_) return stored;
  const ledger::ClaimScope copies_of_weights(memory::Component::kFunctionality);
  if (!keeps_casts()) return stored.to(dtype_);
  at::Tensor copy = at::autocast::cached_cast(dtype_, stored, device_);
  constexpr size_t kCacheAndHere = 2;  // a copy that was just cached; later uses find it in kept_copies as well
  if (copy.use_count() == kCacheAndHere) kept_copies.push_back(copy);
  return copy;
}

}  // namespace fathom::ops
