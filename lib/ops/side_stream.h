// A stream beside the one that computes, for copies between the host's memory and the device's. On a CPU there is none:
// copies are made at once, and nothing waits.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <optional>

namespace fathom::ops {

class SideStream {
 public:
  // A point in the work of a stream; where it was never set, it is past.
  using Mark = std::optional<c10::Event>;

  explicit SideStream(at::Device device);

  // Queued here. What is of the host must be pinned.
  void copy(const at::Tensor& to, const at::Tensor& from) const;
  // Behind what was queued here; and before what will be.
  void mark(Mark& mark) const;
  void wait_for(const Mark& mark) const;
  // Likewise, of the stream that this thread computes on.
  void mark_computing(Mark& mark) const;
  void hold_computing(const Mark& mark) const;
  // Until all that was queued here is done.
  void synchronize() const;
  // The same for destructors: a device that has failed is not waited for.
  void drain() const noexcept;

 private:
  c10::Stream computing() const;

  at::Device device_;
  std::optional<c10::Stream> stream_;
};

}  // namespace fathom::ops
