// A fixed ring of batches on the device, taken before step 1 and never grown: the batch of a step is a view into it.
#pragma once

#include <ATen/core/Tensor.h>

#include "data/batch.h"
#include "ledger/ledger.h"

namespace fathom::train {

struct DeviceBatch {
  at::Tensor ids_BS;      // int64
  at::Tensor targets_BS;  // int64, data::kIgnored where there is no loss
  int64_t target_count = 0;
  int64_t token_count = 0;
};

class BatchRing {
 public:
  static constexpr int64_t kSlots = 2;  // the micro-batch in use and the next one of the step

  // Room for kSlots batches of up to `capacity_tokens` = rows x length tokens each, ids and targets as int64; claims it
  // as functionality.
  BatchRing(int64_t capacity_tokens, at::Device device, ledger::Ledger& ledger);
  // Copies the batch into the next slot; the views stay valid until kSlots more batches were put. A batch without ids
  // (a shape alone) leaves the slot as it is.
  DeviceBatch put(const data::Batch& batch);

 private:
  at::Tensor ids_, targets_;  // [kSlots, capacity_tokens]
  int64_t next_ = 0;
};

}  // namespace fathom::train
