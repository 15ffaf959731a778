// Columns copied apart and together: one autograd node with several outputs, so that no gradient is padded.
#include "ops/linear/split_columns.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <numeric>
#include <string>

namespace fathom::ops {
namespace {

using Parts = std::vector<std::vector<int64_t>>;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Visits each part: of every output, its number, the place of the part in each group of x, and in the output.
template <typename Visit>
void each_part(int64_t groups, const Parts& parts, const Visit& visit) {
  int64_t in_group = 0;
  for (size_t output = 0; output < parts.size(); ++output) {
    int64_t in_output = 0;
    for (const int64_t width : parts[output]) {
      visit(output, in_group, in_output, width);
      in_group += width;
      in_output += groups * width;
    }
  }
}

// Of a part [T, groups, width].
at::Tensor in_groups(const at::Tensor& x_TN, int64_t groups, int64_t place, int64_t width) {
  return x_TN.view({x_TN.size(0), groups, -1}).narrow(2, place, width);
}
at::Tensor in_output(const at::Tensor& out_TN, int64_t groups, int64_t place, int64_t width) {
  return out_TN.narrow(1, place, groups * width).unflatten(1, {groups, width});
}

struct SplitColumns : torch::autograd::Function<SplitColumns> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x_in_TN, int64_t groups,
                               const Parts& parts) {
    const at::Tensor x_TN = x_in_TN.contiguous();
    variable_list made;
    for (const std::vector<int64_t>& widths : parts) {
      made.push_back(at::empty({x_TN.size(0), groups * std::accumulate(widths.begin(), widths.end(), int64_t{0})},
                               x_TN.options()));
    }
    each_part(groups, parts, [&](size_t output, int64_t from, int64_t to, int64_t width) {
      in_output(made[output], groups, to, width).copy_(in_groups(x_TN, groups, from, width));
    });
    context->saved_data["groups"] = groups;
    context->saved_data["width"] = x_TN.size(1);
    for (size_t output = 0; output < parts.size(); ++output) {
      context->saved_data[std::to_string(output)] = parts[output];
    }
    return made;
  }

  // Autograd fills in zeros for a part that nothing read.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const int64_t groups = context->saved_data["groups"].toInt(), width = context->saved_data["width"].toInt();
    Parts parts;
    int64_t covered = 0;
    for (size_t output = 0; output < gradients.size(); ++output) {
      parts.push_back(context->saved_data[std::to_string(output)].toIntVector());
      covered += gradients[output].size(1);
    }
    const at::Tensor grad_TN = at::empty({gradients.front().size(0), width}, gradients.front().options());
    if (covered < width) grad_TN.zero_();
    each_part(groups, parts, [&](size_t output, int64_t to, int64_t from, int64_t its) {
      in_groups(grad_TN, groups, to, its).copy_(in_output(gradients[output], groups, from, its));
    });
    return {grad_TN, at::Tensor(), at::Tensor()};
  }
};

}  // namespace

std::vector<at::Tensor> split_columns(const at::Tensor& x_TN, int64_t groups, const Parts& parts) {
  return SplitColumns::apply(x_TN, groups, parts);
}

}  // namespace fathom::ops
