// The ring of batches on the device.
#include "train/batch_ring.h"

#include <ATen/ATen.h>

namespace fathom::train {
namespace {

at::Tensor fill(const at::Tensor& slot, const data::Batch& batch, const std::vector<int64_t>& values) {
  const at::Tensor view_BS = slot.narrow(0, 0, batch.rows * batch.length).view({batch.rows, batch.length});
  if (!values.empty()) {
    view_BS.copy_(at::from_blob(const_cast<int64_t*>(values.data()), view_BS.sizes(), at::kLong));
  }
  return view_BS;
}

}  // namespace

BatchRing::BatchRing(int64_t capacity_tokens, at::Device device, ledger::Ledger& ledger) {
  const auto options = at::TensorOptions().dtype(at::kLong).device(device);
  ids_ = at::zeros({kSlots, capacity_tokens}, options);
  targets_ = at::full({kSlots, capacity_tokens}, data::kIgnored, options);
  ledger.claim(ids_, ledger::Component::kFunctionality, "batch ring: ids");
  ledger.claim(targets_, ledger::Component::kFunctionality, "batch ring: targets");
}

DeviceBatch BatchRing::put(const data::Batch& batch) {
  const int64_t slot = next_;
  next_ = (next_ + 1) % kSlots;
  return {fill(ids_.select(0, slot), batch, batch.ids), fill(targets_.select(0, slot), batch, batch.targets),
          batch.target_count, batch.token_count};
}

}  // namespace fathom::train
