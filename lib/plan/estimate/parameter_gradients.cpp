// By names and shapes alone.
#include "plan/estimate/parameter_gradients.h"

#include <utility>

namespace fathom::plan {
namespace {

using arch::ParameterRow;
using arch::Role;
using footprint::Bytes;
using footprint::Tensors;

constexpr const char* kGradient = "one gradient for each trained number, in its type";

const char* name_of_gradient(Role role) {
  switch (role) {
    case Role::kEmbedding:
      return "gradient of the embedding";
    case Role::kPositions:
      return "gradient of learned positions";
    case Role::kHead:
      return "gradient of the head";
    case Role::kNorm:
      return "gradients of norms";
    case Role::kRelativeBias:
      return "gradients of relative positions";
    case Role::kProjection:
      return "gradients of projections";
    case Role::kRouter:
      return "gradients of routers";
    case Role::kExperts:
      return "gradients of experts";
    case Role::kConvolution:
      return "gradients of convolutions";
    case Role::kGateNorm:
      return "gradients of gated norms";
    case Role::kDecayRate:
    case Role::kDecayBias:
      return "gradients of decays";
    case Role::kSink:
      return "gradients of sinks";
    case Role::kExpertBias:
      return "gradients of biases of experts";
    case Role::kBias:
      return "gradients of biases";
    case Role::kLayerScalar:
    case Role::kCorrection:
      break;
    case Role::kStepSizes:
      return "gradients of step sizes";
    case Role::kAdapterA:
    case Role::kAdapterB:
      return "gradients of adapters";
  }
  return "";
}

}  // namespace

bool belongs_to(const ParameterRow& row, std::string_view module) {
  const size_t at = row.spec.name.find(module);
  const size_t end = at + module.size();
  return at != std::string::npos && (at == 0 || row.spec.name[at - 1] == '.') &&
         (end == row.spec.name.size() || row.spec.name[end] == '.');
}

Bytes gradient_of(const ParameterRow& row) {
  Product product;
  for (const int64_t size : row.spec.shape) product.push_back({size, ""});
  product.push_back({size_of(row.dtype), "bytes"});
  return {name_of_gradient(row.spec.role), kGradient, std::move(product), memory::Component::kGradients};
}

Tensors gradients_of(const std::vector<const ParameterRow*>& rows, std::string_view module) {
  Tensors gradients;
  for (const ParameterRow* row : rows) {
    if (row->trained && belongs_to(*row, module)) gradients.push_back(gradient_of(*row));
  }
  return gradients;
}

}  // namespace fathom::plan
