// Columns copied apart and together: one autograd node with several outputs, so that no gradient is padded.
#include "ops/linear/split_columns.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct SplitColumns : torch::autograd::Function<SplitColumns> {
  static variable_list forward(AutogradContext* /*context*/, const at::Tensor& x_TN,
                               const std::vector<int64_t>& widths) {
    variable_list parts;
    for (const at::Tensor& part : x_TN.split_with_sizes(widths, 1))
      parts.push_back(part.clone(at::MemoryFormat::Contiguous));
    return parts;
  }

  // Autograd fills in zeros for a part that nothing read.
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {at::cat(gradients, 1), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> split_columns(const at::Tensor& x_TN, const std::vector<int64_t>& widths) {
  return SplitColumns::apply(x_TN, widths);
}

}  // namespace fathom::ops
