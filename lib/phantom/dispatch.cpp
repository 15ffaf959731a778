// Registrations that follow the dispatcher's own tables: operators that bypass the fallback, and autocast as on the
// CPU.
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <map>
#include <string>
#include <unordered_set>

#include "phantom/backend.h"

namespace fathom::phantom {
namespace {

using at::Tensor;
using c10::DispatchKey;
using c10::IValue;

// The CPU's cast policies (ATen/autocast_mode.cpp). The tables name the two short lists; every other operator of the
// CPU's list computes in FP32.
const std::unordered_set<std::string> kLowerPrecision = {
    "aten::conv1d",
    "aten::conv1d.padding",
    "aten::conv2d",
    "aten::conv2d.padding",
    "aten::conv3d",
    "aten::conv3d.padding",
    "aten::bmm",
    "aten::mm",
    "aten::linalg_vecdot",
    "aten::baddbmm",
    "aten::addmm",
    "aten::_addmm_activation",
    "aten::addbmm",
    "aten::linear",
    "aten::_convolution.deprecated",
    "aten::matmul",
    "aten::conv_tbc",
    "aten::mkldnn_rnn_layer",
    "aten::conv_transpose1d",
    "aten::conv_transpose2d.input",
    "aten::conv_transpose3d.input",
    "aten::prelu",
    "aten::scaled_dot_product_attention",
    "aten::_native_multi_head_attention",
};
const std::unordered_set<std::string> kPromote = {"aten::stack", "aten::cat", "aten::index_copy",
                                                  "aten::index_copy.dimname"};

constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;

IValue cast(const IValue& value, at::ScalarType type) {
  if (value.isTensor()) return at::autocast::cached_cast(type, value.toTensor(), kDeviceType);
  if (!value.isTensorList()) return value;
  c10::List<Tensor> list;
  for (const Tensor& t : value.toTensorVector()) list.push_back(at::autocast::cached_cast(type, t, kDeviceType));
  return list;
}

at::ScalarType promoted(at::ScalarType type, const IValue& value) {
  if (value.isTensor() && value.toTensor().defined())
    return at::autocast::prioritize(type, value.toTensor(), kDeviceType);
  if (!value.isTensorList()) return type;
  for (const Tensor& t : value.toTensorVector()) type = at::autocast::prioritize(type, t, kDeviceType);
  return type;
}

enum class Policy { kLower, kFloat, kWidest };

template <Policy policy>
void with_casts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(DispatchKey::AutocastPrivateUse1);
  const size_t first = stack->size() - op.schema().arguments().size();
  at::ScalarType type = policy == Policy::kFloat ? at::kFloat : at::autocast::get_autocast_dtype(kDeviceType);
  if (policy == Policy::kWidest)
    for (size_t i = first; i < stack->size(); i++) type = promoted(type, (*stack)[i]);
  // From the last argument to the first: so the CPU's wrappers, a call over expanded casts, are compiled. The order
  // decides in which order autograd runs the casts' backward.
  for (size_t i = stack->size(); i-- > first;) (*stack)[i] = cast((*stack)[i], type);
  op.callBoxed(stack);
}

}  // namespace

torch::Library& library_for(DispatchKey key) {
  static auto* libraries = new std::map<DispatchKey, torch::Library>;
  return libraries->try_emplace(key, torch::Library::IMPL, "aten", key, __FILE__, __LINE__).first->second;
}

void register_fallbacks() {
  static auto* backend = new torch::Library(torch::Library::IMPL, "_", DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto* autocast =
      new torch::Library(torch::Library::IMPL, "_", DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  backend->fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  autocast->fallback(torch::CppFunction::makeFallthrough());
}

void register_bypassing_operators() {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(DispatchKey::CPU)) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
        op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd))
      library_for(DispatchKey::PrivateUse1)
          .impl(c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
  }
}

void register_autocast() {
  for (const auto& name : c10::Dispatcher::singleton().getRegistrationsForDispatchKey(DispatchKey::AutocastCPU)) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    std::string full = c10::toString(name);
    auto kernel = kLowerPrecision.contains(full)
                      ? torch::CppFunction::makeFromBoxedFunction<&with_casts<Policy::kLower>>()
                  : kPromote.contains(full) ? torch::CppFunction::makeFromBoxedFunction<&with_casts<Policy::kWidest>>()
                                            : torch::CppFunction::makeFromBoxedFunction<&with_casts<Policy::kFloat>>();
    library_for(DispatchKey::AutocastPrivateUse1).impl(full.c_str(), std::move(kernel));
  }
}

}  // namespace fathom::phantom
