// Gradients of parameters that every rank has whole: they lie in a few flat buffers, and each buffer's sum over ranks
// begins as soon as the backward pass has made the last of its gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "dist/group.h"

namespace fathom::dist {

// Own buckets rather than c10d's Reducer: a parameter's gradient is a view of them from the start, so that nothing is
// copied and the memory of every step is that of the first.
class GradientBuckets {
 public:
  // parameters: in the order in which a forward pass reads them. Their gradients become views of new zeros, of their
  // types. bytes: a bucket ends with the parameter that takes it beyond them.
  GradientBuckets(Group& group, const std::vector<at::Tensor>& parameters, int64_t bytes = kBucketBytes);
  ~GradientBuckets();
  GradientBuckets(const GradientBuckets&) = delete;
  GradientBuckets& operator=(const GradientBuckets&) = delete;

  // Of each bucket, the buffer and in what its sum is made.
  std::vector<Group::Sum> sums() const;

  // Before the backward pass whose gradients complete a step.
  void expect_last();
  // After it, or without one where this rank had no micro-batch: ends all sums.
  void finish();
  void clear();

 private:
  // As torch's DistributedDataParallel has it by default.
  static constexpr int64_t kBucketBytes = int64_t{25} << 20;
  struct Bucket;
  class Hook;
  void begin_ready();

  Group& group_;
  std::vector<std::unique_ptr<Bucket>> buckets_;  // in the order in which the backward pass fills them
  bool expects_last_ = false;
  size_t begun_ = 0, ended_ = 0;
};

}  // namespace fathom::dist
