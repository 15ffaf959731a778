// Moves tensors between LibTorch and safetensors files, one at a time.
#include "checkpoint/named_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <set>

#include "base/error.h"
#include "ops/copy_turned.h"
#include "ops/scalar_type.h"

namespace fathom::checkpoint {
namespace {

// The bytes as a CPU tensor that owns nothing.
at::Tensor view_bytes(const std::byte* bytes, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(const_cast<std::byte*>(bytes), shape, at::TensorOptions(type).device(at::kCPU));
}

}  // namespace

std::vector<weights::TensorSource> tensor_sources(const NamedTensors& tensors, const std::string& prefix) {
  std::vector<weights::TensorSource> sources;
  for (const auto& [name, tensor] : tensors) {
    weights::TensorSource source;
    source.name = prefix + name;
    source.dtype = ops::dtype_of(tensor.scalar_type());
    source.shape = tensor.sizes().vec();
    const bool lies_there = tensors.units == nullptr && tensor.is_cpu() && tensor.is_contiguous();
    if (lies_there) source.data = static_cast<const std::byte*>(tensor.const_data_ptr());
    source.read = [from = tensor, units = tensors.units](std::byte* destination, int64_t bytes) {
      const at::NoGradGuard no_grad;
      if (units != nullptr) units->open(from);
      if (destination != nullptr && bytes > 0)
        ops::copy_turned(view_bytes(destination, from.sizes(), from.scalar_type()), from);
    };
    sources.push_back(std::move(source));
  }
  return sources;
}

void copy_tensors(const weights::SafetensorsFile& file, const NamedTensors& destinations, const std::string& prefix) {
  const std::string origin = file.path().string();
  const std::string remedy = "resume with the model, method and adapters of the run that saved it";
  std::set<std::string> wanted;
  for (const auto& [name, tensor] : destinations) {
    const weights::TensorInfo* info = file.find(prefix + name);
    if (info == nullptr) throw Error(origin + ": holds no tensor '" + prefix + name + "'", remedy);
    if (ops::dtype_of(tensor.scalar_type()) != info->dtype || tensor.sizes() != at::IntArrayRef(info->shape)) {
      throw Error(origin + ": tensor '" + info->name + "' has another shape or type than this run's: " +
                      std::string(dtype_name(info->dtype)) + c10::str(at::IntArrayRef(info->shape)) + " against " +
                      std::string(dtype_name(ops::dtype_of(tensor.scalar_type()))) + c10::str(tensor.sizes()),
                  remedy);
    }
    wanted.insert(info->name);
  }
  for (const weights::TensorInfo& info : file.tensors()) {
    if (!wanted.count(info.name)) throw Error(origin + ": tensor '" + info.name + "' has no place in this run", remedy);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : destinations) {
    const weights::TensorInfo& info = *file.find(prefix + name);
    const at::Tensor stored = view_bytes(file.data(info), info.shape, tensor.scalar_type());
    if (destinations.units != nullptr) {
      destinations.units->fill(tensor, stored);
    } else if (info.bytes > 0) {
      ops::copy_turned(tensor.detach(), stored);
    }
    file.release(info);
  }
  if (destinations.units != nullptr) destinations.units->close();
}

}  // namespace fathom::checkpoint
