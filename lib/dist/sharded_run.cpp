// Storages, and what is copied into and out of them.
#include "dist/sharded_run.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "base/rounding.h"
#include "model/places.h"

namespace fathom::dist {
namespace {

constexpr int64_t kAlignment = 64;  // bytes

}  // namespace

ShardedRun::ShardedRun(Group& group, ledger::Ledger& ledger, int64_t unit, const at::TensorOptions& options,
                       at::ScalarType type)
    : group_(group), ledger_(ledger), unit_(unit), options_(options.dtype(type).requires_grad(false)) {}

void ShardedRun::make_whole() {
  whole_ = model::shaped({piece_ * group_.size()}, options_);
  for (const Item& item : items_) model::place(item.tensor, whole_.storage(), item.range.first * whole_.element_size());
}

void ShardedRun::lay_out(const std::vector<std::pair<std::string, at::Tensor>>& tensors, int64_t block) {
  const auto size = static_cast<int64_t>(c10::elementSize(type()));
  const int64_t aligned = std::max(kAlignment / size, block);
  int64_t numbers = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t count = static_cast<int64_t>(tensor.nbytes()) / size;
    items_.push_back({name, tensor, {numbers, count}});
    numbers += round_up(count, aligned);
  }
  piece_ = round_up(divide_up(numbers, group_.size()), aligned);
  make_whole();
}

void ShardedRun::lay_out_as(const ShardedRun& other, const std::string& kind, int64_t block) {
  piece_ = other.piece_ / block;
  for (const Item& item : other.items_) {
    const Range range{item.range.first / block, divide_up(item.range.count, block)};
    const at::Tensor tensor =
        block == 1 ? model::shaped(item.tensor.sizes(), options_) : model::shaped({range.count}, options_);
    items_.push_back({kind + "." + item.name, tensor, range});
  }
  make_whole();
}

void ShardedRun::lay_out_as_casts(const ShardedRun& other, const std::vector<at::Tensor>& tensors) {
  piece_ = other.piece_;
  parts_ = other.parts_;
  for (size_t index = 0; index < tensors.size(); ++index) {
    items_.push_back({other.items_[index].name, tensors[index], other.items_[index].range});
  }
  make_whole();
}

void ShardedRun::take() {
  const at::Tensor fresh = at::empty(whole_.sizes(), options_);
  ledger_.claim(fresh, memory::Component::kFunctionality, "unit " + std::to_string(unit_) + ", gathered");
  c10::StorageImpl& from = *fresh.storage().unsafeGetStorageImpl();
  c10::StorageImpl& to = *whole_.storage().unsafeGetStorageImpl();
  to.set_data_ptr_noswap(from.set_data_ptr(c10::DataPtr(nullptr, fresh.device())));
  to.set_nbytes(from.nbytes());
  from.set_nbytes(0);
  is_there_ = true;
}

void ShardedRun::begin_gather() {
  if (is_there_) return;
  const at::NoGradGuard no_gradients;
  take();
  for (const Part& part : parts_) {
    whole_.narrow(0, own().first + part.first, part.numbers.numel()).copy_(part.numbers);
  }
  gathering_ = group_.begin_gather(whole_);
}

void ShardedRun::finish_gather() {
  if (gathering_) gathering_->wait();
  gathering_.reset();
}

void ShardedRun::let_go() {
  if (!is_there_) return;
  finish_gather();
  c10::StorageImpl& storage = *whole_.storage().unsafeGetStorageImpl();
  storage.set_data_ptr_noswap(c10::DataPtr(nullptr, whole_.device()));
  storage.set_nbytes(0);
  is_there_ = false;
}

void ShardedRun::store() {
  const at::NoGradGuard no_gradients;
  for (const Part& part : parts_) {
    part.numbers.copy_(whole_.narrow(0, own().first + part.first, part.numbers.numel()));
  }
  is_filled_ = true;
}

std::vector<model::UnitKeeper::Kept> ShardedRun::kept(const at::Tensor& tensor) const {
  const Range wanted{tensor.storage_offset() * tensor.element_size(), static_cast<int64_t>(tensor.nbytes())};
  const int64_t size = whole_.element_size();
  std::vector<model::UnitKeeper::Kept> kept;
  for (const Part& part : parts_) {
    const Range has{(own().first + part.first) * size, part.numbers.numel() * size};
    const Range range = overlap(wanted, has);
    if (range.count == 0) continue;
    kept.push_back({range.first - wanted.first,
                    part.numbers.detach().view(at::kByte).narrow(0, range.first - has.first, range.count)});
  }
  return kept;
}

}  // namespace fathom::dist
