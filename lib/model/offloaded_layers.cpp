// Storages whose memory is a slot's while their layer is there.
#include "model/offloaded_layers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/rounding.h"
#include "model/places.h"

namespace fathom::model {
namespace {

constexpr int64_t kAlignment = footprint::kStagingAlignment;

c10::StorageImpl& storage_of(const at::Tensor& tensor) { return *tensor.storage().unsafeGetStorageImpl(); }

// A tensor of the device's memory that keeps the parameter's shape.
void give_memory(const at::Tensor& parameter) {
  const at::Tensor fresh = at::empty(parameter.sizes(), parameter.options().requires_grad(false));
  place(parameter, fresh.storage(), 0);
}

}  // namespace

void OffloadedLayers::adopt(const std::vector<Parameter>& parameters) {
  const at::NoGradGuard no_gradients;
  int64_t last = 0, largest = 0;
  for (const Parameter& parameter : parameters) last = std::max(last, parameter.unit);
  std::map<int64_t, std::vector<const Parameter*>> of_layers;
  for (const Parameter& parameter : parameters) {
    if (!parameter.trained && parameter.unit > 0 && parameter.unit < last) {
      of_layers[parameter.unit].push_back(&parameter);
      continue;
    }
    give_memory(parameter.tensor);
    ledger_.claim(parameter.tensor, memory::Component::kWeights, parameter.name);
  }
  for (const auto& [unit, its] : of_layers) {
    int64_t bytes = 0;
    for (const Parameter* parameter : its) {
      bytes += round_up(static_cast<int64_t>(parameter->tensor.nbytes()), kAlignment);
    }
    Layer& layer = layers_[unit];
    layer.on_host = host_memory_(bytes);
    layer.whole = shaped({bytes}, at::TensorOptions().device(device_).dtype(at::kByte));
    units_[&storage_of(layer.whole)] = unit;
    int64_t first = 0;
    for (const Parameter* parameter : its) {
      place(parameter->tensor, layer.whole.storage(), first);
      first += round_up(static_cast<int64_t>(parameter->tensor.nbytes()), kAlignment);
    }
    largest = std::max(largest, bytes);
  }
  if (layers_.empty()) return;
  for (Slot& slot : slots_) {
    slot.bytes = at::empty({largest}, at::TensorOptions().device(device_).dtype(at::kByte));
    ledger_.claim(slot.bytes, memory::Component::kFunctionality, "layers on their way");
    copies_.mark_computing(slot.read);  // what had this memory before may be read still
  }
}

int64_t OffloadedLayers::host_bytes() const {
  int64_t bytes = 0;
  for (const auto& [unit, layer] : layers_) bytes += layer.on_host.numel();
  return bytes;
}

// The layer that was in the slot has no memory then.
void OffloadedLayers::put(int64_t unit, Slot& slot) {
  const auto point = [this](Layer& layer, void* memory, size_t bytes) {
    storage_of(layer.whole).set_data_ptr_noswap(c10::DataPtr(memory, device_));
    storage_of(layer.whole).set_nbytes(bytes);
  };
  if (slot.unit != 0) {
    Layer& former = layers_.at(slot.unit);
    point(former, nullptr, 0);
    former.slot = nullptr;
  }
  Layer& layer = layers_.at(unit);
  point(layer, slot.bytes.mutable_data_ptr(), static_cast<size_t>(layer.on_host.numel()));
  layer.slot = &slot;
  slot.unit = unit;
}

void OffloadedLayers::fetch(int64_t unit) {
  Layer& layer = layers_.at(unit);
  if (layer.slot != nullptr) return;
  Slot& slot = *std::find_if(slots_.begin(), slots_.end(),
                             [this](const Slot& each) { return each.unit == 0 || each.unit != computing_; });
  put(unit, slot);
  copies_.wait_for(slot.read);
  copies_.copy(slot.bytes.narrow(0, 0, layer.on_host.numel()), layer.on_host);
  copies_.mark(slot.fetched);
}

// What was queued so far reads the layer of before.
void OffloadedLayers::make_ready(int64_t unit) {
  if (computing_ != unit && is_offloaded(computing_) && layers_.at(computing_).slot != nullptr) {
    copies_.mark_computing(layers_.at(computing_).slot->read);
  }
  fetch(unit);
  copies_.hold_computing(layers_.at(unit).slot->fetched);
  computing_ = unit;
}

// The copies that are queued read and write what goes with this.
OffloadedLayers::~OffloadedLayers() { copies_.drain(); }

void OffloadedLayers::before(int64_t unit) {
  TORCH_INTERNAL_ASSERT(open_ == 0, "a layer is open while a pass comes to the next");
  const at::NoGradGuard no_gradients;
  if (is_offloaded(unit)) make_ready(unit);
  if (is_offloaded(unit + 1)) fetch(unit + 1);
}

void OffloadedLayers::after(int64_t unit, const at::Tensor& made) {
  if (!is_offloaded(unit) || !made.defined() || !made.requires_grad()) return;
  made.register_hook([this, unit](const at::Tensor& /*gradient*/) { reach_backward(unit); });
}

// The gradient of what `unit` made is there: the units behind have been read.
void OffloadedLayers::reach_backward(int64_t unit) {
  const at::NoGradGuard no_gradients;
  make_ready(unit);
  if (is_offloaded(unit - 1)) fetch(unit - 1);
}

void OffloadedLayers::open(const at::Tensor& parameter) {
  const auto found = units_.find(&storage_of(parameter));
  if (found == units_.end() || found->second == open_) return;
  close();
  open_ = found->second;
  make_ready(open_);
}

void OffloadedLayers::close() {
  if (open_ == 0) return;
  const at::NoGradGuard no_gradients;
  Layer& layer = layers_.at(open_);
  layer.on_host.copy_(layer.whole);
  open_ = 0;
}

void OffloadedLayers::fill(const at::Tensor& parameter, const at::Tensor& from) {
  const at::NoGradGuard no_gradients;
  open(parameter);
  parameter.detach().copy_(from);
}

std::vector<UnitKeeper::Kept> OffloadedLayers::kept(const at::Tensor& parameter) const {
  const auto found = units_.find(&storage_of(parameter));
  const auto bytes = static_cast<int64_t>(parameter.nbytes());
  const int64_t first = parameter.storage_offset() * parameter.element_size();
  if (found == units_.end()) {
    const at::Tensor here = at::empty({0}, parameter.options().dtype(at::kByte).requires_grad(false));
    return {{0, here.set_(parameter.storage(), first, {bytes})}};
  }
  return {{0, layers_.at(found->second).on_host.narrow(0, first, bytes)}};
}

}  // namespace fathom::model
