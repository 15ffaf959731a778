// Rows of stacked parameters, narrowed, and matrices the other way round.
#include "checkpoint/stored_names.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "arch/stored_parts.h"
#include "base/json.h"

namespace fathom::checkpoint {

NamedTensors as_stored(const NamedTensors& parameters, const std::filesystem::path& folder) {
  if (std::none_of(parameters.begin(), parameters.end(),
                   [](const auto& each) { return arch::may_be_stored_otherwise(each.first); })) {
    return parameters;
  }
  const std::string config = (folder / "config.json").string();
  const arch::Architecture architecture = arch::parse_architecture(read_json(config), config);
  std::map<std::string, std::vector<arch::StoredPart>> parts;
  for (const arch::ParameterSpec& spec : arch::parameter_specs(architecture)) {
    parts[spec.name] = arch::stored_parts(architecture, spec);
  }
  NamedTensors stored;
  for (const auto& [name, tensor] : parameters) {
    const auto found = parts.find(name);
    if (found == parts.end()) {
      stored.emplace_back(name, tensor);
      continue;
    }
    if (found->second.size() == 1) {
      const arch::StoredPart& part = found->second.front();
      const bool stacked = std::ssize(part.shape) != tensor.dim();
      stored.emplace_back(part.name, part.transposed ? tensor.detach().t()
                                     : stacked       ? tensor.detach().view(part.shape)
                                                     : tensor);
      continue;
    }
    for (const arch::StoredPart& part : found->second) {
      stored.emplace_back(part.name, tensor.detach().narrow(0, part.first_row, part.rows));
    }
  }
  return stored;
}

}  // namespace fathom::checkpoint
