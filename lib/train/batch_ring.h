// A fixed ring of batches on the device, taken before step 1 and never grown: the batch of a step is a view into it.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "data/batch.h"
#include "ledger/ledger.h"
#include "ops/documents.h"

namespace fathom::train {

struct DeviceBatch {
  at::Tensor ids_BS;     // int64
  at::Tensor rows_N;     // int64, of the B * S tokens those that count for the loss; undefined: all of them
  at::Tensor targets_N;  // int64, of these rows; data::kIgnored where there is no loss
  std::shared_ptr<const ops::Documents> documents;  // of a packed batch; null: padded rows
  int64_t target_count = 0;
  int64_t token_count = 0;
};

// What batches come with besides their ids and targets.
struct RingColumns {
  bool rows = false;       // the numbers of the rows that count
  bool documents = false;  // positions and borders of packed documents
};

class BatchRing {
 public:
  static constexpr int64_t kSlots = 2;  // the micro-batch in use and the next one of the step

  // Room for kSlots batches of up to `capacity_tokens` = rows x length tokens each, ids and targets as int64; claims it
  // as functionality; likewise the columns that are asked for.
  BatchRing(int64_t capacity_tokens, const RingColumns& columns, at::Device device, ledger::Ledger& ledger);
  // Copies the batch into the next slot; the views stay valid until kSlots more batches were put. A batch without ids
  // (a shape alone) leaves the slot as it is. Which rows count is found here, on the host.
  DeviceBatch put(const data::Batch& batch);

 private:
  std::shared_ptr<const ops::Documents> documents_of(const data::Batch& batch, int64_t slot) const;

  at::Tensor ids_, targets_, rows_;  // [kSlots, capacity_tokens]; rows_ undefined where none are picked
  at::Tensor positions_;             // int32, likewise, of packed batches
  at::Tensor borders_;               // int32 [kSlots, capacity_tokens + 1], of packed batches on CUDA
  int64_t next_ = 0;
};

}  // namespace fathom::train
