// Sums in FP32, in the order of one process: the first micro-batch of each rank, then the second.
#include "train/loss_sum.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "base/rounding.h"

namespace fathom::train {

void LossSum::add(const at::Tensor& loss, double share) {
  const at::Tensor part = share == 1 ? loss : loss * share;
  if (group_ == nullptr) {
    sum_ = sum_.defined() ? sum_.add_(part) : part;
    return;
  }
  if (!each_.defined()) each_ = at::empty({most_}, part.options());
  each_.select(0, count_++).copy_(part);
}

double LossSum::take_total(int64_t micro_batches) {
  const at::Tensor sum = std::exchange(sum_, at::Tensor()), each = std::exchange(each_, at::Tensor());
  if (group_ == nullptr) return sum.defined() ? sum.item<double>() : 0;
  // Where the other ranks are only played, micro_batches are this one's.
  const int64_t rounds = std::max(divide_up(micro_batches, group_->size()), count_);
  std::vector<double> of_all(static_cast<size_t>(rounds * group_->size()));
  if (count_ > 0) {
    const at::Tensor here = each.cpu();
    for (int64_t i = 0; i < count_; ++i) {
      of_all[static_cast<size_t>(i * group_->size() + group_->rank())] = here.const_data_ptr<float>()[i];
    }
  }
  group_->sum(of_all);
  return std::accumulate(of_all.begin(), of_all.end(), 0.0F,
                         [](float sum, double loss) { return sum + static_cast<float>(loss); });
}

}  // namespace fathom::train
