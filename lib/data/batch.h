// Batches: examples padded on the right to a rectangle, in an order that a few integers describe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "data/dataset.h"

namespace fathom::data {

// Row-major rows x length. `targets` are the labels shifted by one: targets[s] is the label of ids[s+1], and the last
// is kIgnored, so that the loss needs no copy of the logits. Padding is id pad_id with target kIgnored: masked by
// position. A batch with empty vectors stands for its shape alone (dry runs).
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;
  int64_t target_count = 0;  // targets that are not kIgnored
  int64_t token_count = 0;   // tokens that are not padding
  std::vector<int64_t> ids;
  std::vector<int64_t> targets;
  std::vector<int64_t> lengths;  // of each padded row, without padding
  std::vector<float> reference;  // of each row, log-probability by the model as the run starts; empty: not asked for
  // Packed: one row of documents end to end, of these lengths, none of which sees another. Empty: padded rows.
  std::vector<int64_t> document_lengths;
  // For an encoder and decoder: rows x source_length, padded likewise; ids are then the targets, one place to the right
  // behind the token that a decoder starts from.
  int64_t source_length = 0;  // 0: there is no source
  std::vector<int64_t> source_ids;
  std::vector<int64_t> source_lengths;  // of each row, without padding
};

// Of all that shapes of tensors depend on.
uint64_t shape_hash(const Batch& batch);

// pad_to_multiple_of: rounds the lengths up; 0: the longest row's.
// rows: of the dataset; those of an example of several are one behind the other.
Batch make_batch(const Dataset& dataset, const std::vector<int64_t>& rows, int32_t pad_id,
                 int64_t pad_to_multiple_of = 0);
// One row with these examples end to end, as documents that do not see each other. No target crosses a border: the last
// of each document is kIgnored.
Batch make_packed_batch(const Dataset& dataset, const std::vector<int64_t>& rows);
// The length of a padded batch whose longest row is so long.
int64_t padded_length(int64_t longest, int64_t pad_to_multiple_of);

// Where a run stands in its data: enough to resume exactly.
struct Position {
  int64_t epoch = 0;  // whole passes finished
  int64_t index = 0;  // examples taken from the current pass
  bool operator==(const Position&) const = default;
};

// Rearranges the order of a pass.
using Arrange = std::function<void(std::vector<int64_t>& order)>;
// As transformers' group_by_length: the shuffled order in mega-batches of at most 50 steps, each sorted by length, the
// longest first; the longest example of all comes first, so that what does not fit fails at once. lengths: of every
// example; step_rows: examples in an optimizer step.
Arrange grouped_by_length(std::vector<int32_t> lengths, int64_t step_rows);

// Hands out rows in a seeded order that depends only on (seed, epoch); the last batch of a pass may be smaller.
class Sampler {
 public:
  Sampler(int64_t examples, int64_t batch_size, uint64_t seed, bool shuffle, Arrange arrange = nullptr);
  // The rows of the next batch; moves the position. After the last batch of a pass the position is {epoch + 1, 0}.
  std::vector<int64_t> next();
  Position position() const { return position_; }
  void seek(Position position);
  int64_t batches_per_epoch() const;

 private:
  int64_t examples_, batch_size_;
  uint64_t seed_;
  bool shuffle_;
  Arrange arrange_;
  Position position_;
  int64_t order_epoch_ = -1;
  std::vector<int64_t> order_;
};

}  // namespace fathom::data
