// By the interface that devices have in common: nothing of CUDA is linked.
#include "ops/side_stream.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace fathom::ops {
namespace {

void record(SideStream::Mark& mark, const c10::Stream& stream) {
  if (!mark) mark.emplace(stream.device_type());
  mark->record(stream);
}

}  // namespace

SideStream::SideStream(at::Device device) : device_(device) {
  if (!device.is_cpu()) stream_ = c10::impl::VirtualGuardImpl(device.type()).getNewStream(device);
}

c10::Stream SideStream::computing() const { return c10::impl::VirtualGuardImpl(device_.type()).getStream(device_); }

void SideStream::copy(const at::Tensor& to, const at::Tensor& from) const {
  std::optional<c10::StreamGuard> guard;
  if (stream_) guard.emplace(*stream_);
  to.copy_(from, /*non_blocking=*/true);
}

void SideStream::mark(Mark& mark) const {
  if (stream_) record(mark, *stream_);
}

void SideStream::wait_for(const Mark& mark) const {
  if (stream_ && mark) mark->block(*stream_);
}

void SideStream::mark_computing(Mark& mark) const {
  if (stream_) record(mark, computing());
}

void SideStream::hold_computing(const Mark& mark) const {
  if (stream_ && mark) mark->block(computing());
}

void SideStream::synchronize() const {
  if (stream_) stream_->synchronize();
}

void SideStream::drain() const noexcept {
  try {
    synchronize();
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch): told by who asked the device
  }
}

}  // namespace fathom::ops
