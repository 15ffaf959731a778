// Some millions of numbers at a time, as groups of one step each.
#include "ops/quantized/fake_quantize_parts.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "footprint/quantized_part_size.h"

namespace fathom::ops {
namespace {

// body(part [P, group] of each matrix, steps [P, 1], first group), for all groups of the matrices.
template <typename Body>
void for_parts(const at::Tensor& weight_ND, const at::Tensor& log_steps_NG, const cpu::StepGrid& grid,
               const Body& body) {
  const int64_t groups = log_steps_NG.numel(), most = std::max<int64_t>(1, footprint::kDequantizedPart / grid.group);
  const at::Tensor log_steps_G = log_steps_NG.view({groups});
  for (int64_t first = 0; first < groups; first += most) {
    const int64_t count = std::min(most, groups - first);
    const auto part = [&](const at::Tensor& matrix_ND) {
      return matrix_ND.view({groups, grid.group}).narrow(0, first, count);
    };
    body(part, part(weight_ND), log_steps_G.narrow(0, first, count).exp().unsqueeze_(1), first, count);
  }
}

// The codes of a part, in FP32.
at::Tensor codes_of(const at::Tensor& places, const cpu::StepGrid& grid) {
  return places.round().clamp_(grid.lowest, grid.highest);
}

}  // namespace

void fake_quantize_in_parts(const at::Tensor& weight_ND, const at::Tensor& log_steps_NG, const cpu::StepGrid& grid,
                            const at::Tensor& out_ND) {
  for_parts(weight_ND, log_steps_NG, grid,
            [&](const auto& part, const at::Tensor& values, const at::Tensor& steps, int64_t, int64_t) {
              at::Tensor codes = at::div(values, steps).round_().clamp_(grid.lowest, grid.highest);
              part(out_ND).copy_(codes.mul_(steps));
            });
}

void fake_quantize_backward_in_parts(const at::Tensor& gradient_ND, const at::Tensor& weight_ND,
                                     const at::Tensor& log_steps_NG, const cpu::StepGrid& grid,
                                     const at::Tensor& log_step_gradients_NG) {
  const at::Tensor sums_G = log_step_gradients_NG.view({-1});
  for_parts(weight_ND, log_steps_NG, grid,
            [&](const auto& part, const at::Tensor& values, const at::Tensor& steps, int64_t first, int64_t count) {
              const at::Tensor gradient = part(gradient_ND), places = at::div(values, steps);
              const at::Tensor inside = places.ge(grid.lowest).logical_and_(places.le(grid.highest));
              const at::Tensor change = codes_of(places, grid).mul_(steps);
              change.sub_(places.copy_(values).mul_(inside)).mul_(gradient);
              at::Tensor sums = sums_G.narrow(0, first, count);
              at::sum_out(sums, change, {1});
              gradient.mul_(inside);
            });
}

at::Tensor fake_quantize_tokens_by_operators(const at::Tensor& x_TD) {
  constexpr double kCodes = 127, kSmallest = 1e-30;  // a row of zeros stays one
  const at::Tensor steps_T1 = x_TD.abs().amax(1, /*keepdim=*/true).to(at::kFloat).div_(kCodes).clamp_min_(kSmallest);
  return at::div(x_TD, steps_T1).round_().mul_(steps_T1).to(x_TD.scalar_type());
}

}  // namespace fathom::ops
