// Autocast as LibTorch does it, made explicit: casts of weights carry their own component in the ledger.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace fathom::ops {

// What torch.autocast(device, dtype) does between its braces. The last scope to close drops the cached casts.
class AutocastScope {
 public:
  explicit AutocastScope(c10::DeviceType device, bool enabled, at::ScalarType dtype = at::kBFloat16);
  // dtype: nullopt leaves it as it is.
  AutocastScope(c10::DeviceType device, std::optional<at::ScalarType> dtype)
      : AutocastScope(device, dtype.has_value(), dtype.value_or(at::kBFloat16)) {}
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool enabled_, previous_enabled_;
  at::ScalarType previous_dtype_;
};

// Whether autocast's copies of trained weights are kept: until the scope ends, and by what the backward pass needs.
// Else they are made again wherever they are read, as those of frozen weights. For the whole process; they are, unless
// a run says so.
void keep_casts(bool on);
bool keeps_casts();

// Reads the autocast state of the device and, while alive, keeps LibTorch's own autocast off, so that every cast in
// between is one that the model asked for: the same on a CPU, on CUDA and on a phantom device.
class ComputeScope {
 public:
  // storage: the type of the model's weights, in which it computes without autocast.
  ComputeScope(at::Device device, at::ScalarType storage);
  ~ComputeScope();
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

  bool autocast() const { return autocast_; }
  // The type of matrix products and attention.
  at::ScalarType dtype() const { return dtype_; }
  // A weight as matrix products take it: under autocast its copy, which belongs to Component::kFunctionality. Like
  // LibTorch, keeps the copies of trained FP32 leaves until the autocast scope ends and casts frozen weights at every
  // use. cast: set, the copy, which somebody else keeps (model/units.h); the weight itself has no memory then.
  at::Tensor weight(const at::Tensor& stored, const at::Tensor& cast = {}) const;

 private:
  c10::DeviceType device_;
  bool autocast_;
  at::ScalarType dtype_;
};

}  // namespace fathom::ops
