// Moves tensors between LibTorch and safetensors files, one at a time.
#include "checkpoint/named_tensors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/rounding.h"
#include "ops/copy_turned.h"
#include "ops/scalar_type.h"
#include "weights/other_parts.h"

namespace fathom::checkpoint {
namespace {

// The bytes as a CPU tensor that owns nothing.
at::Tensor view_bytes(const std::byte* bytes, at::IntArrayRef shape, at::ScalarType type) {
  return at::from_blob(const_cast<std::byte*>(bytes), shape, at::TensorOptions(type).device(at::kCPU));
}

const std::byte* bytes_at(const at::Tensor& bytes) { return static_cast<const std::byte*>(bytes.const_data_ptr()); }

// Of a tensor that lies as the file has it: from a GPU a piece at a time.
void give_as_they_lie(const model::UnitKeeper::Kept& kept, const weights::TensorSource::Sink& sink) {
  constexpr int64_t kAtOnce = int64_t{4} << 20;
  for (int64_t done = 0; done < kept.bytes.numel(); done += kAtOnce) {
    const int64_t bytes = std::min(kAtOnce, kept.bytes.numel() - done), first = kept.first + done;
    if (sink.wants && !sink.wants(first, bytes)) continue;
    const at::Tensor piece = kept.bytes.narrow(0, done, bytes).cpu();
    sink.take(first, bytes_at(piece), bytes);
  }
}

// Of matrices, one or several, that lie the other way round: what is kept of each row of the file, which is a column
// here.
void give_turned(const at::Tensor& turned, const model::UnitKeeper::Kept& kept,
                 const weights::TensorSource::Sink& sink) {
  const int64_t size = turned.element_size(), rows = turned.size(-2), columns = turned.size(-1);
  const int64_t matrices = turned.dim() == 3 ? turned.size(0) : 1;
  const at::Tensor here = kept.bytes.cpu();
  const int64_t first = kept.first / size, end = first + here.numel() / size;
  std::vector<std::byte> numbers;
  for (int64_t each = 0; each < matrices * rows; ++each) {
    const int64_t begin = each / rows * rows * columns, row = each % rows;  // of the matrix
    const int64_t from = divide_up(std::max<int64_t>(0, first - begin - row), rows);
    const int64_t to = std::min(columns, divide_up(std::max<int64_t>(0, end - begin - row), rows));
    const int64_t at = (begin + row * columns + from) * size;
    if (from >= to || (sink.wants && !sink.wants(at, (to - from) * size))) continue;
    numbers.resize(static_cast<size_t>((to - from) * size));
    for (int64_t column = from; column < to; ++column) {
      std::memcpy(numbers.data() + (column - from) * size,
                  bytes_at(here) + (begin + column * rows + row - first) * size, static_cast<size_t>(size));
    }
    sink.take(at, numbers.data(), std::ssize(numbers));
  }
}

void give_parts(const at::Tensor& tensor, const std::vector<model::UnitKeeper::Kept>& parts,
                const weights::TensorSource::Sink& sink) {
  for (const model::UnitKeeper::Kept& kept : parts) {
    tensor.is_contiguous() ? give_as_they_lie(kept, sink) : give_turned(tensor, kept, sink);
  }
}

}  // namespace

std::vector<weights::TensorSource> tensor_sources(const NamedTensors& tensors, const std::string& prefix) {
  std::vector<weights::TensorSource> sources;
  for (const auto& [name, tensor] : tensors) {
    weights::TensorSource source;
    source.name = prefix + name;
    source.dtype = ops::dtype_of(tensor.scalar_type());
    source.shape = tensor.sizes().vec();
    if (tensors.units != nullptr) {
      source.parts = [from = tensor, units = tensors.units](const weights::TensorSource::Sink& sink) {
        give_parts(from, units->kept(from), sink);
      };
      sources.push_back(std::move(source));
      continue;
    }
    if (tensor.is_cpu() && tensor.is_contiguous()) {
      source.data = static_cast<const std::byte*>(tensor.const_data_ptr());
    }
    source.read = [from = tensor](std::byte* destination, int64_t bytes) {
      const at::NoGradGuard no_grad;
      if (bytes > 0) ops::copy_turned(view_bytes(destination, from.sizes(), from.scalar_type()), from);
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
    if (!wanted.count(info.name) && !weights::is_of_other_part(info.name))
      throw Error(origin + ": tensor '" + info.name + "' has no place in this run", remedy);
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
