// Pads examples into batches and shuffles by a generator of our own, so that no library's version moves an example.
#include "data/batch.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/split_mix.h"

namespace fathom::data {
namespace {

// Fisher and Yates from the back, with the stream that starts at seed and is split by the epoch.
std::vector<int64_t> shuffled(int64_t examples, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(examples));
  std::iota(order.begin(), order.end(), 0);
  SplitMix64 random(SplitMix64(SplitMix64(seed).next() + static_cast<uint64_t>(epoch)).next());
  for (size_t last = order.size(); last > 1; --last) std::swap(order[last - 1], order[random.below(last)]);
  return order;
}

}  // namespace

Batch make_batch(const Dataset& dataset, const std::vector<int64_t>& rows, int32_t pad_id) {
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (int64_t row : rows) {
    batch.length = std::max(batch.length, dataset.length(row));
  }
  const auto size = static_cast<size_t>(checked_multiply(batch.rows, batch.length, "size of a batch"));
  batch.ids.assign(size, pad_id);
  batch.targets.assign(size, kIgnored);
  for (size_t row = 0; row < rows.size(); ++row) {
    const Example example = dataset.example(rows[row]);
    const size_t start = row * static_cast<size_t>(batch.length);
    std::copy(example.ids.begin(), example.ids.end(), batch.ids.begin() + static_cast<std::ptrdiff_t>(start));
    batch.token_count += static_cast<int64_t>(example.ids.size());
    for (size_t position = 1; position < example.labels.size(); ++position) {
      const int64_t label = example.labels[position];
      batch.targets[start + position - 1] = label;
      batch.target_count += label != kIgnored;
    }
  }
  return batch;
}

Sampler::Sampler(int64_t examples, int64_t batch_size, uint64_t seed, bool shuffle)
    : examples_(examples), batch_size_(batch_size), seed_(seed), shuffle_(shuffle) {
  if (examples < 1 || batch_size < 1) throw Error("a sampler needs at least one example and one row per batch");
}

std::vector<int64_t> Sampler::next() {
  if (shuffle_ && order_epoch_ != position_.epoch) {
    order_ = shuffled(examples_, seed_, position_.epoch);
    order_epoch_ = position_.epoch;
  }
  const int64_t end = position_.index + std::min(batch_size_, examples_ - position_.index);
  std::vector<int64_t> rows;
  for (int64_t index = position_.index; index < end; ++index) {
    rows.push_back(shuffle_ ? order_[static_cast<size_t>(index)] : index);
  }
  position_ = end == examples_ ? Position{position_.epoch + 1, 0} : Position{position_.epoch, end};
  return rows;
}

void Sampler::seek(Position position) {
  if (position.epoch < 0 || position.index < 0 || position.index >= examples_) {
    throw Error("position " + std::to_string(position.epoch) + ":" + std::to_string(position.index) +
                    " does not exist in " + std::to_string(examples_) + " examples",
                "Has the training file changed since the checkpoint was saved?");
  }
  position_ = position;
}

int64_t Sampler::batches_per_epoch() const { return (examples_ - 1) / batch_size_ + 1; }

}  // namespace fathom::data
