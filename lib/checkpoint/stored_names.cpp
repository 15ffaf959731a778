// Rows of stacked parameters, narrowed, and matrices the other way round, of all experts each by itself.
#include "checkpoint/stored_names.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "arch/stored_parts.h"
#include "arch/text_part.h"
#include "base/json_value.h"

namespace fathom::checkpoint {
namespace {

// Views that do not ask how large the storage is: it may have no memory yet (model/units.h). Of a contiguous tensor.
at::Tensor contiguous_view(const at::Tensor& tensor, at::IntArrayRef sizes, int64_t offset) {
  at::Tensor view = tensor.detach();
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_allow_tensor_metadata_change(true);
  impl.set_sizes_contiguous(sizes);
  impl.set_storage_offset(tensor.storage_offset() + offset);
  return view;
}

// sizes: [columns, rows] of the matrix, or [N, columns, rows] of N matrices.
at::Tensor turned(const at::Tensor& tensor, const std::vector<int64_t>& sizes) {
  at::Tensor view = tensor.detach();
  c10::TensorImpl& impl = *view.unsafeGetTensorImpl();
  impl.set_allow_tensor_metadata_change(true);
  const int64_t columns = tensor.size(1);
  std::vector<int64_t> strides = {1, columns};
  if (sizes.size() == 3) strides.insert(strides.begin(), sizes[1] * sizes[2]);
  impl.set_sizes_and_strides(at::IntArrayRef(sizes), at::IntArrayRef(strides));
  return view;
}

}  // namespace

NamedTensors as_found(NamedTensors parameters, const weights::SafetensorsFile& file, const std::string& prefix) {
  for (auto& [name, tensor] : parameters) {
    name = arch::found_name(name, [&](const std::string& each) { return file.find(prefix + each) != nullptr; });
  }
  return parameters;
}

NamedTensors as_stored(const NamedTensors& parameters, const std::filesystem::path& folder,
                       const std::optional<arch::TextPart>& part) {
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const auto& each) { return arch::may_be_stored_otherwise(each.first); })) {
    NamedTensors stored = parameters;
    for (auto& [name, tensor] : stored) name = arch::stored_name(part, name);
    return stored;
  }
  const std::string config = (folder / "config.json").string();
  arch::Architecture architecture = arch::parse_architecture(read_json(config), config);
  architecture.text_part = part;
  std::map<std::string, std::vector<arch::StoredPart>> parts;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    parts[spec.name] = arch::stored_parts(architecture, spec);
  }
  NamedTensors stored;
  stored.units = parameters.units;
  for (const auto& [name, tensor] : parameters) {
    const auto found = parts.find(name);
    if (found == parts.end()) {
      stored.emplace_back(arch::stored_name(part, name), tensor);
      continue;
    }
    if (found->second.size() == 1) {
      const arch::StoredPart& part = found->second.front();
      const bool stacked = std::ssize(part.shape) != tensor.dim();
      stored.emplace_back(part.name, part.transposed ? turned(tensor, part.shape)
                                     : stacked       ? contiguous_view(tensor, part.shape, 0)
                                                     : tensor);
      continue;
    }
    for (const arch::StoredPart& part : found->second) {
      std::vector<int64_t> sizes = tensor.sizes().vec();
      sizes[0] = part.rows;
      stored.emplace_back(part.name, contiguous_view(tensor, sizes, part.first_row * tensor.stride(0)));
    }
  }
  return stored;
}

}  // namespace fathom::checkpoint
