// A hook a parameter counts down what its bucket waits for.
#include "dist/gradient_buckets.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace fathom::dist {

struct GradientBuckets::Bucket {
  std::vector<at::Tensor> parameters;
  Group::Sum sum;
  size_t missing = 0;
};

class GradientBuckets::Hook : public torch::autograd::PostAccumulateGradHook {
 public:
  Hook(GradientBuckets& buckets, Bucket& bucket) : buckets_(buckets), bucket_(bucket) {}
  void operator()(const at::Tensor& /*parameter*/) override {
    if (!buckets_.expects_last_) return;
    TORCH_INTERNAL_ASSERT(bucket_.missing > 0, "a gradient was added to after its bucket was full");
    --bucket_.missing;
    buckets_.begin_ready();
  }

 private:
  GradientBuckets& buckets_;
  Bucket& bucket_;
};

GradientBuckets::GradientBuckets(Group& group, const std::vector<at::Tensor>& parameters, int64_t bytes)
    : group_(group) {
  int64_t filled = bytes;
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    const bool is_alike =
        !buckets_.empty() && buckets_.back()->parameters.front().scalar_type() == parameter->scalar_type();
    if (filled >= bytes || !is_alike) {
      buckets_.push_back(std::make_unique<Bucket>());
      filled = 0;
    }
    buckets_.back()->parameters.push_back(*parameter);
    filled += static_cast<int64_t>(parameter->nbytes());
  }
  for (const auto& bucket : buckets_) {
    int64_t numbers = 0;
    for (const at::Tensor& parameter : bucket->parameters) numbers += parameter.numel();
    const auto options = bucket->parameters.front().options().requires_grad(false);
    bucket->sum.tensor = at::zeros({numbers}, options);
    bucket->sum.staging = at::empty({group.staging_numbers(numbers)}, options);
    int64_t first = 0;
    for (const at::Tensor& parameter : bucket->parameters) {
      parameter.mutable_grad() = bucket->sum.tensor.narrow(0, first, parameter.numel()).view(parameter.sizes());
      first += parameter.numel();
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, std::make_unique<Hook>(*this, *bucket));
    }
  }
}

GradientBuckets::~GradientBuckets() {
  for (const auto& bucket : buckets_) {
    for (const at::Tensor& parameter : bucket->parameters) {
      torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
      parameter.mutable_grad().reset();
    }
  }
}

std::vector<Group::Sum> GradientBuckets::sums() const {
  std::vector<Group::Sum> sums;
  for (const auto& bucket : buckets_) sums.push_back(bucket->sum);
  return sums;
}

void GradientBuckets::expect_last() {
  expects_last_ = true;
  begun_ = ended_ = 0;
  for (const auto& bucket : buckets_) bucket->missing = bucket->parameters.size();
}

// Every rank begins them in the same order; the one before ends first, so that its sum is sent on meanwhile.
void GradientBuckets::begin_ready() {
  while (begun_ < buckets_.size() && buckets_[begun_]->missing == 0) {
    group_.begin(buckets_[begun_]->sum);
    ++begun_;
    if (begun_ - ended_ > 1) group_.end(buckets_[ended_++]->sum);
  }
}

void GradientBuckets::finish() {
  for (size_t i = begun_; i < buckets_.size(); ++i) buckets_[i]->missing = 0;
  begin_ready();
  while (ended_ < begun_) group_.end(buckets_[ended_++]->sum);
  expects_last_ = false;
}

void GradientBuckets::clear() {
  for (const auto& bucket : buckets_) bucket->sum.tensor.zero_();
}

}  // namespace fathom::dist
