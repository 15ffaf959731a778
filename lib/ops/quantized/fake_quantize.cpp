// Fake quantization by kernels on CPUs, by fake_quantize_parts.h elsewhere.
#include "ops/quantized/fake_quantize.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "cpu/fake_quantize_kernels.h"
#include "footprint/quantized_part_size.h"
#include "ops/quantized/fake_quantize_parts.h"
#include "ops/rows.h"
#include "ops/traffic.h"
#include "quant/int4.h"
#include "quant/int8.h"

namespace fathom::ops {
namespace {

constexpr int64_t kFakeValuesPerTask = 16384;
constexpr double kSmallestStep = 1e-6;  // of numbers that are all zero, so that they can become others

cpu::StepGrid grid_of(const FakeQuantizer& quantizer, const at::Tensor& weight_ND) {
  cpu::StepGrid grid;
  grid.group = weight_ND.size(1) / quantizer.log_steps_NG.size(1);
  const bool int4 = quant::is_int4(quantizer.scheme);
  grid.lowest = int4 ? static_cast<float>(quant::kSmallestInt4Code) : -quant::kLargestInt8Code;
  grid.highest = int4 ? static_cast<float>(quant::kLargestInt4Code) : quant::kLargestInt8Code;
  return grid;
}

// kernel(first, last) for shares of the groups, on the CPU; on a phantom none.
template <typename Kernel>
void for_groups(const at::Tensor& log_steps_NG, const cpu::StepGrid& grid, const Kernel& kernel) {
  if (!log_steps_NG.is_cpu()) return;
  at::parallel_for(0, log_steps_NG.numel(), std::max<int64_t>(1, kFakeValuesPerTask / grid.group), kernel);
}

void fake_quantize_into(const at::Tensor& weight_ND, const FakeQuantizer& quantizer, const at::Tensor& out_ND) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor& log_steps_NG = quantizer.log_steps_NG;
  if (!has_kernel(weight_ND)) return fake_quantize_in_parts(weight_ND, log_steps_NG, grid, out_ND);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::fake_quantize", traffic(weight_ND, log_steps_NG, out_ND));
  for_groups(log_steps_NG, grid, [&](int64_t first, int64_t last) {
    cpu::fake_quantize(rows(weight_ND), log_steps_NG.const_data_ptr<float>(), grid, rows(out_ND), first, last);
  });
}

at::Tensor round_tokens(const at::Tensor& x_TD) {
  if (!has_kernel(x_TD)) return fake_quantize_tokens_by_operators(x_TD);
  at::Tensor out_TD = at::empty_like(x_TD);
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::fake_quantize_tokens", traffic(x_TD, out_TD));
  const int64_t width = x_TD.size(1);
  if (x_TD.is_cpu()) {
    at::parallel_for(
        0, x_TD.size(0), std::max<int64_t>(1, kFakeValuesPerTask / width),
        [&](int64_t first, int64_t last) { cpu::fake_quantize_tokens(rows(x_TD), rows(out_TD), first, last, width); });
  }
  return out_TD;
}

struct RoundTokens : torch::autograd::Function<RoundTokens> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/, const at::Tensor& x_TD) {
    return round_tokens(x_TD);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

}  // namespace

at::Tensor fake_quantize(const at::Tensor& weight_ND, const FakeQuantizer& quantizer, at::ScalarType dtype) {
  at::Tensor out_ND = at::empty(weight_ND.sizes(), weight_ND.options().dtype(dtype));
  fake_quantize_into(weight_ND, quantizer, out_ND);
  return out_ND;
}

void fake_quantize_(const at::Tensor& weight_ND, const FakeQuantizer& quantizer) {
  fake_quantize_into(weight_ND, quantizer, weight_ND);
}

at::Tensor fake_quantize_backward(const at::Tensor& gradient_ND, const at::Tensor& weight_ND,
                                  const FakeQuantizer& quantizer) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor& log_steps_NG = quantizer.log_steps_NG;
  at::Tensor sums_NG = at::empty(log_steps_NG.sizes(), log_steps_NG.options());
  if (!has_kernel(weight_ND)) {
    fake_quantize_backward_in_parts(gradient_ND, weight_ND, log_steps_NG, grid, sums_NG);
    return sums_NG;
  }
  RECORD_USER_SCOPE_WITH_INPUTS("fathom::fake_quantize_backward",
                                traffic(gradient_ND, gradient_ND.detach(), weight_ND, log_steps_NG, sums_NG));
  for_groups(log_steps_NG, grid, [&](int64_t first, int64_t last) {
    cpu::fake_quantize_backward(rows(gradient_ND), rows(weight_ND), log_steps_NG.const_data_ptr<float>(), grid,
                                sums_NG.mutable_data_ptr<float>(), first, last);
  });
  return sums_NG;
}

void initialise_steps(const at::Tensor& weight_ND, const FakeQuantizer& quantizer) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const double codes = quant::is_int4(quantizer.scheme) ? quant::kInt4CodesPerSide : quant::kLargestInt8Code;
  const int64_t groups = quantizer.log_steps_NG.numel(),
                most = std::max<int64_t>(1, footprint::kDequantizedPart / grid.group);
  for (int64_t first = 0; first < groups; first += most) {
    const int64_t count = std::min(most, groups - first);
    const at::Tensor part = weight_ND.view({groups, grid.group}).narrow(0, first, count);
    const at::Tensor steps = part.abs().amax(1).to(at::kFloat).div_(codes).clamp_min_(kSmallestStep).log_();
    quantizer.log_steps_NG.view({groups}).narrow(0, first, count).copy_(steps);
  }
}

LearnedCodes learned_codes(const at::Tensor& weight_ND, const FakeQuantizer& quantizer) {
  const cpu::StepGrid grid = grid_of(quantizer, weight_ND);
  const at::Tensor& log_steps_NG = quantizer.log_steps_NG;
  LearnedCodes learned{at::empty(weight_ND.sizes(), weight_ND.options().dtype(at::kChar)),
                       at::empty(log_steps_NG.sizes(), log_steps_NG.options())};
  auto* codes = learned.codes_ND.mutable_data_ptr<int8_t>();
  auto* steps = learned.steps_NG.mutable_data_ptr<float>();
  const auto* log_steps = log_steps_NG.const_data_ptr<float>();
  for_groups(log_steps_NG, grid, [&](int64_t first, int64_t last) {
    cpu::fake_quantization_codes(rows(weight_ND), log_steps, grid, codes, first, last);
    std::transform(log_steps + first, log_steps + last, steps + first, [](float x) { return std::exp(x); });
  });
  return learned;
}

at::Tensor fake_quantize_tokens(const at::Tensor& x_TD) { return RoundTokens::apply(x_TD); }

}  // namespace fathom::ops
