// The boxed fallback: every operator that has no kernel for the phantom device runs its Meta kernel on shapes alone.
//
// Each phantom tensor gets a meta tensor of the same shape, with one meta storage per phantom storage. A result that is
// the same tensor was written in place, one on a known storage is a view, any other is new and gets a phantom storage.
#include <ATen/EmptyTensor.h>
#include <c10/util/SmallVector.h>

#include <mutex>
#include <unordered_set>

#include "base/error.h"
#include "phantom/backend.h"
#include "phantom/device.h"
#include "phantom/kernel_scratch.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;

class Exchange {
 public:
  IValue to_meta(const IValue& value) {
    if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(c10::kMeta);
    if (value.isGenerator()) return {};  // its key set would dispatch to the phantom again
    return mapped(value, [this](const Tensor& t) { return meta_of(t); });
  }
  IValue to_phantom(const IValue& value) {
    return mapped(value, [this](const Tensor& t) { return phantom_of(t); });
  }

  // Operators with out arguments may have given them another shape.
  void update_shapes() {
    for (auto& [phantom, meta] : tensors_) {
      if (phantom.sizes() == meta.sizes() && phantom.strides() == meta.strides()) continue;
      phantom.unsafeGetTensorImpl()->set_sizes_and_strides(meta.sizes(), meta.strides(), meta.storage_offset());
      if (size_t bytes = meta.storage().nbytes(); bytes > phantom.storage().nbytes())
        resize_storage(phantom.storage(), bytes);
    }
  }

 private:
  template <typename Map>
  static IValue mapped(const IValue& value, const Map& map) {
    if (value.isTensor()) return map(value.toTensor());
    if (value.isTensorList()) {
      c10::List<Tensor> list;
      for (const Tensor& t : value.toTensorVector()) list.push_back(map(t));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> list;
      for (const std::optional<Tensor>& t : value.toOptionalTensorVector())
        list.push_back(t ? std::optional<Tensor>(map(*t)) : std::nullopt);
      return list;
    }
    return value;
  }

  static Tensor on_storage(c10::Storage storage, DispatchKey key, const Tensor& like) {
    // The plain constructor: the one for views takes the key set literally, without autograd's keys.
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), DispatchKeySet(key), like.dtype());
    auto* impl = tensor.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    if (like.is_conj()) impl->_set_conj(true);
    return tensor;
  }

  Tensor meta_of(const Tensor& phantom) {
    if (!phantom.defined() || !phantom.is_privateuseone()) return phantom;
    for (auto& [known, meta] : tensors_)
      if (known.is_same(phantom)) return meta;
    c10::Storage storage;
    for (auto& [known, meta] : storages_)
      if (known.is_alias_of(phantom.storage())) storage = meta;
    if (!storage) {
      storage = c10::Storage(c10::Storage::use_byte_size_t(), phantom.storage().nbytes(),
                             c10::DataPtr(nullptr, c10::Device(c10::kMeta)), c10::GetAllocator(c10::kMeta), true);
      storages_.emplace_back(phantom.storage(), storage);
    }
    Tensor meta = on_storage(std::move(storage), DispatchKey::Meta, phantom);
    tensors_.emplace_back(phantom, meta);
    return meta;
  }

  Tensor phantom_of(const Tensor& meta) {
    if (!meta.defined() || !meta.is_meta()) return meta;
    for (auto& [phantom, known] : tensors_)
      if (known.is_same(meta)) return phantom;
    c10::Storage storage;
    for (auto& [phantom, known] : storages_)
      if (known.is_alias_of(meta.storage())) storage = phantom;
    if (!storage) {
      storage = new_storage(meta.storage().nbytes());
      storages_.emplace_back(storage, meta.storage());
    }
    Tensor phantom = on_storage(std::move(storage), DispatchKey::PrivateUse1, meta);
    tensors_.emplace_back(phantom, meta);
    return phantom;
  }

  c10::SmallVector<std::pair<Tensor, Tensor>, 6> tensors_;  // (phantom, meta)
  c10::SmallVector<std::pair<c10::Storage, c10::Storage>, 6> storages_;
};

std::mutex served_mutex;
std::unordered_set<const c10::FunctionSchema*>& served() {
  static auto* set = new std::unordered_set<const c10::FunctionSchema*>;
  return *set;
}

bool can_answer_shapes(const c10::OperatorHandle& op) {
  for (auto key : {DispatchKey::Meta, DispatchKey::CompositeExplicitAutograd,
                   DispatchKey::CompositeExplicitAutogradNonFunctional, DispatchKey::CompositeImplicitAutograd})
    if (op.hasKernelForDispatchKey(key)) return true;
  return false;
}

void admit(const c10::OperatorHandle& op) {
  std::lock_guard guard(served_mutex);
  if (served().contains(&op.schema())) return;
  if (!can_answer_shapes(op))
    throw Error("the dry run has no rule for the operator " + c10::toString(op.operator_name()),
                "give it a Meta kernel in lib/phantom/meta_rules.cpp, or use an operator whose result's shape does not "
                "depend on data");
  served().insert(&op.schema());
}

}  // namespace

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  admit(op);
  const size_t first = stack->size() - op.schema().arguments().size();
  const int64_t scratch = kernel_scratch_bytes(op, c10::ArrayRef<IValue>(*stack).slice(first));
  Exchange exchange;
  for (size_t i = first; i < stack->size(); i++) (*stack)[i] = exchange.to_meta((*stack)[i]);
  op.redispatchBoxed(DispatchKeySet(DispatchKey::Meta), stack);
  exchange.update_shapes();
  for (size_t i = first; i < stack->size(); i++) (*stack)[i] = exchange.to_phantom((*stack)[i]);
  take_and_give_back(scratch);
}

void skip(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  TORCH_INTERNAL_ASSERT(op.schema().returns().empty());
  torch::jit::drop(*stack, op.schema().arguments().size());
}

bool has_rule(const c10::OperatorHandle& op) {
  device();
  return op.hasKernelForDispatchKey(DispatchKey::PrivateUse1) || can_answer_shapes(op);
}

std::set<std::string> served_operators() {
  std::lock_guard guard(served_mutex);
  std::set<std::string> names;
  for (const auto* schema : served()) names.insert(c10::toString(schema->operator_name()));
  return names;
}

}  // namespace fathom::phantom
