// The ring of batches on the device.
#include "train/batch_ring.h"

#include <ATen/ATen.h>

namespace fathom::train {
namespace {

at::Tensor fill(const at::Tensor& slot, at::IntArrayRef shape, const std::vector<int64_t>& values) {
  const at::Tensor view = slot.narrow(0, 0, c10::multiply_integers(shape)).view(shape);
  if (!values.empty()) view.copy_(at::from_blob(const_cast<int64_t*>(values.data()), shape, at::kLong));
  return view;
}

struct Counted {
  std::vector<int64_t> rows, targets;
};

Counted counted(const data::Batch& batch) {
  Counted counted;
  for (size_t row = 0; row < batch.targets.size(); ++row) {
    if (batch.targets[row] == data::kIgnored) continue;
    counted.rows.push_back(static_cast<int64_t>(row));
    counted.targets.push_back(batch.targets[row]);
  }
  return counted;
}

}  // namespace

BatchRing::BatchRing(int64_t capacity_tokens, const RingColumns& columns, at::Device device, ledger::Ledger& ledger) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  ids_ = at::zeros({kSlots, capacity_tokens}, options);
  targets_ = at::full({kSlots, capacity_tokens}, data::kIgnored, options);
  ledger.claim(ids_, ledger::Component::kFunctionality, "batch ring: ids");
  ledger.claim(targets_, ledger::Component::kFunctionality, "batch ring: targets");
  if (!columns.rows) return;
  rows_ = at::zeros({kSlots, capacity_tokens}, options);
  ledger.claim(rows_, ledger::Component::kFunctionality, "batch ring: rows that count");
}

DeviceBatch BatchRing::put(const data::Batch& batch) {
  const int64_t slot = next_;
  next_ = (next_ + 1) % kSlots;
  const int64_t tokens = batch.rows * batch.length;
  const Counted picked = counted(batch);
  const int64_t count = batch.targets.empty() ? batch.target_count : static_cast<int64_t>(picked.rows.size());
  DeviceBatch result;
  result.target_count = batch.target_count;
  result.token_count = batch.token_count;
  result.ids_BS = fill(ids_.select(0, slot), {batch.rows, batch.length}, batch.ids);
  if (!rows_.defined() || count == tokens) {
    result.targets_N = fill(targets_.select(0, slot), {tokens}, batch.targets);
  } else {
    result.rows_N = fill(rows_.select(0, slot), {count}, picked.rows);
    result.targets_N = fill(targets_.select(0, slot), {count}, picked.targets);
  }
  return result;
}

}  // namespace fathom::train
