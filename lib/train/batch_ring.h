// A fixed ring of batches on the device, taken before step 1 and never grown: the batch of a step is a view into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "data/batch.h"
#include "ledger/ledger.h"
#include "model/decoder.h"

namespace fathom::train {

struct DeviceBatch {
  model::Inputs inputs;
  at::Tensor rows_N;     // int64, of the B * S tokens those that count for the loss; undefined: all of them
  at::Tensor targets_N;  // int64, of these rows; data::kIgnored where there is no loss
  at::Tensor reference_B,
      lengths_B;  // FP32, of each row: data::Batch::reference, and targets; undefined: not asked for
  int64_t target_count = 0;
  int64_t token_count = 0;
};

// Of the largest batch: rows x length, and rows x length of its source.
struct BatchCapacity {
  BatchCapacity(int64_t tokens_in, int64_t source_tokens_in = 0)  // NOLINT(google-explicit-constructor)
      : tokens(tokens_in), source_tokens(source_tokens_in) {}
  int64_t tokens, source_tokens;
};

// What batches come with besides their ids and targets.
struct RingColumns {
  bool rows = false;       // the numbers of the rows that count
  bool documents = false;  // positions and borders of packed documents
  bool padding = false;    // which tokens are none, of padded rows, for routers
  int64_t sequences = 0;   // at most, of which each has numbers of its own; 0: none has
};

class BatchRing {
 public:
  static constexpr int64_t kRowNumbers = 2;
  static constexpr int64_t kSlots = 2;  // the micro-batch in use and the next one of the step

  // Room for kSlots batches, ids and targets as int64, those of sources with a byte for each that says whether it is
  // padding; claims it as functionality; likewise the columns that are asked for.
  BatchRing(const BatchCapacity& capacity, const RingColumns& columns, at::Device device, ledger::Ledger& ledger);
  // Copies the batch into the next slot; the views stay valid until kSlots more batches were put. A batch without ids
  // (a shape alone) leaves the slot as it is. Which rows count is found here, on the host. Throws Error for a batch
  // that a slot has no room for.
  DeviceBatch put(const data::Batch& batch);

 private:
  void check_room_for(const data::Batch& batch) const;
  std::shared_ptr<const ops::Documents> documents_of(const data::Batch& batch, int64_t slot) const;

  at::Tensor ids_, targets_, rows_;  // [kSlots, capacity.tokens]; rows_ undefined where none are picked
  at::Tensor source_, hidden_;       // [kSlots, capacity.source_tokens]; undefined without sources
  at::Tensor real_;                  // FP32, likewise, where routers ask
  at::Tensor positions_;             // int32, likewise, of packed batches
  at::Tensor of_rows_;               // FP32 [kSlots, kRowNumbers, sequences]: references, targets
  at::Tensor borders_;               // int32 [kSlots, capacity.tokens + 1], of packed batches on CUDA
  int64_t next_ = 0;
};

}  // namespace fathom::train
