// A part of the model that is recorded once for each kind of batch and replayed from then on: a training step
// costs the host two launches for it, whatever is in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "ledger/cuda.h"

namespace fathom::ops {

class RecordedSegments {
 public:
  // What a segment computes of its input alone and of weights that stay where they are, and of LibTorch's random
  // numbers, which go on with every replay; nothing that waits for the device. Kept with its recording.
  using Segment = std::function<at::Tensor(const at::Tensor& input)>;

  // trained: the leaves that segments have gradients of. most: kinds that are recorded; others are computed as they
  // come. device outlives this.
  RecordedSegments(ledger::CudaDevice& device, std::vector<at::Tensor> trained, int64_t most);
  ~RecordedSegments();
  RecordedSegments(const RecordedSegments&) = delete;
  RecordedSegments& operator=(const RecordedSegments&) = delete;

  // segment(input) with its gradients. Of inputs of one kind the first is computed as it comes, so that libraries have
  // prepared what they need; the second is recorded, first its forward and then its backward pass, and replayed at
  // once. Needs a stream that can be recorded. From the second on the result, and the gradients of the input and of
  // `trained`, are written to the same memory each time: valid until the next forward pass. Each forward pass must be
  // followed by its backward pass, with undefined gradients of what the segment reads. anchor: any leaf that requires a
  // gradient, so that there is a backward pass where the input needs none. kind: all that the segment's work depends on
  // but for numbers in the device's memory; those of one kind have one shape.
  at::Tensor run(const std::vector<int64_t>& kind, const Segment& segment, const at::Tensor& input,
                 const at::Tensor& anchor);

 private:
  struct Recorded;
  struct Replay;
  ledger::CudaDevice& device_;
  std::vector<at::Tensor> trained_;
  std::map<std::vector<int64_t>, std::shared_ptr<Recorded>> by_kind_;  // null: not recorded
  int64_t most_, recorded_ = 0;
};

}  // namespace fathom::ops
