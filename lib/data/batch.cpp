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

void resize(Batch& batch, int32_t pad_id) {
  const auto size = static_cast<size_t>(checked_multiply(batch.rows, batch.length, "size of a batch"));
  batch.ids.assign(size, pad_id);
  batch.targets.assign(size, kIgnored);
}

// Targets are labels one place to the left; the last of the example stays kIgnored.
void place(const Example& example, size_t start, Batch& batch) {
  std::copy(example.ids.begin(), example.ids.end(), batch.ids.begin() + static_cast<std::ptrdiff_t>(start));
  batch.token_count += static_cast<int64_t>(example.ids.size());
  for (size_t position = 1; position < example.labels.size(); ++position) {
    const int64_t label = example.labels[position];
    batch.targets[start + position - 1] = label;
    batch.target_count += label != kIgnored;
  }
}

// The target of one row for a decoder, and its source.
void place_pair(const Example& example, size_t row, int32_t decoder_start, Batch& batch) {
  const auto border =
      std::find_if(example.labels.begin(), example.labels.end(), [](int32_t label) { return label != kIgnored; }) -
      example.labels.begin();
  const auto source_end = example.ids.begin() + border;
  const auto at = [row](std::vector<int64_t>& ids, int64_t width) {
    return ids.begin() + static_cast<std::ptrdiff_t>(row) * width;
  };
  std::copy(example.ids.begin(), source_end, at(batch.source_ids, batch.source_length));
  batch.source_lengths.push_back(border);
  std::copy(source_end, example.ids.end(), at(batch.targets, batch.length));
  *at(batch.ids, batch.length) = decoder_start;
  std::copy(source_end, example.ids.end() - 1, at(batch.ids, batch.length) + 1);
  batch.token_count += std::ssize(example.ids);
  batch.target_count += std::ssize(example.ids) - border;
}

Batch make_pair_batch(const Dataset& dataset, const std::vector<int64_t>& rows, int32_t pad_id,
                      int64_t pad_to_multiple_of) {
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (int64_t row : rows) {
    batch.length = std::max(batch.length, dataset.target_count(row));
    batch.source_length = std::max(batch.source_length, dataset.source_length(row));
  }
  batch.length = padded_length(batch.length, pad_to_multiple_of);
  batch.source_length = padded_length(batch.source_length, pad_to_multiple_of);
  resize(batch, pad_id);
  batch.source_ids.assign(static_cast<size_t>(checked_multiply(batch.rows, batch.source_length, "size of a batch")),
                          pad_id);
  for (size_t row = 0; row < rows.size(); ++row) {
    place_pair(dataset.example(rows[row]), row, *dataset.decoder_start(), batch);
  }
  return batch;
}

}  // namespace

uint64_t shape_hash(const Batch& batch) {
  NumberHash hash;
  for (const int64_t number : {batch.rows, batch.length, batch.target_count, batch.source_length}) {
    hash.add(static_cast<uint64_t>(number));
  }
  for (const int64_t length : batch.document_lengths) hash.add(static_cast<uint64_t>(length));
  return hash.value();
}

int64_t padded_length(int64_t longest, int64_t pad_to_multiple_of) {
  if (pad_to_multiple_of < 1) return longest;
  return checked_multiply((longest + pad_to_multiple_of - 1) / pad_to_multiple_of, pad_to_multiple_of,
                          "length of a batch");
}

Batch make_batch(const Dataset& dataset, const std::vector<int64_t>& rows, int32_t pad_id, int64_t pad_to_multiple_of) {
  if (dataset.decoder_start()) return make_pair_batch(dataset, rows, pad_id, pad_to_multiple_of);
  Batch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (int64_t row : rows) batch.length = std::max(batch.length, dataset.length(row));
  batch.length = padded_length(batch.length, pad_to_multiple_of);
  resize(batch, pad_id);
  for (size_t row = 0; row < rows.size(); ++row) {
    place(dataset.example(rows[row]), row * static_cast<size_t>(batch.length), batch);
    batch.lengths.push_back(dataset.length(rows[row]));
  }
  return batch;
}

Batch make_packed_batch(const Dataset& dataset, const std::vector<int64_t>& rows) {
  Batch batch;
  batch.rows = 1;
  for (int64_t row : rows) {
    batch.document_lengths.push_back(dataset.length(row));
    batch.length = checked_add(batch.length, dataset.length(row), "length of a batch");
  }
  resize(batch, /*pad_id=*/0);
  size_t start = 0;
  for (int64_t row : rows) {
    place(dataset.example(row), start, batch);
    start += static_cast<size_t>(dataset.length(row));
  }
  return batch;
}

Arrange grouped_by_length(std::vector<int32_t> lengths, int64_t step_rows) {
  return [lengths = std::move(lengths), step_rows](std::vector<int64_t>& order) {
    constexpr int64_t kMostSteps = 50, kLeastMegaBatches = 4;
    const auto examples = static_cast<int64_t>(order.size());
    const auto length_of = [&](int64_t row) { return lengths[static_cast<size_t>(row)]; };
    const int64_t steps = std::clamp<int64_t>(examples / (step_rows * kLeastMegaBatches), 1, kMostSteps);
    for (int64_t start = 0; start < examples; start += steps * step_rows) {
      std::stable_sort(order.begin() + start, order.begin() + std::min(examples, start + steps * step_rows),
                       [&](int64_t a, int64_t b) { return length_of(a) > length_of(b); });
    }
    const auto longest =
        std::max_element(order.begin(), order.end(), [&](int64_t a, int64_t b) { return length_of(a) < length_of(b); });
    if (longest != order.end()) std::swap(*order.begin(), *longest);
  };
}

Sampler::Sampler(int64_t examples, int64_t batch_size, uint64_t seed, bool shuffle, Arrange arrange)
    : examples_(examples), batch_size_(batch_size), seed_(seed), shuffle_(shuffle), arrange_(std::move(arrange)) {
  if (examples < 1 || batch_size < 1) throw Error("a sampler needs at least one example and one row per batch");
}

std::vector<int64_t> Sampler::next() {
  if (shuffle_ && order_epoch_ != position_.epoch) {
    order_ = shuffled(examples_, seed_, position_.epoch);
    if (arrange_) arrange_(order_);
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
                "has the training file changed since the checkpoint was saved?");
  }
  position_ = position;
}

int64_t Sampler::batches_per_epoch() const { return (examples_ - 1) / batch_size_ + 1; }

}  // namespace fathom::data
