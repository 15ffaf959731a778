// AdamW in several types by ATen's operators, in parts: each is widened to FP32, updated in place and rounded back.
#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "optim/mixed_adamw.h"
#include "quant/magnitude.h"

namespace fathom::optim {

// Elements [first, first + n) of a parameter: whole blocks of codes, or the short one at its end.
struct MixedAdamW::Part {
  const Entry& entry;
  at::Tensor gradient;  // of the whole parameter
  int64_t first, n;

  int64_t blocks() const { return divide_up(n, quant::kDynamicBlock); }
  at::Tensor of(const at::Tensor& tensor) const { return tensor.view({-1}).narrow(0, first, n); }
  at::Tensor scales_of(const Moment& moment) const {
    return moment.scales.narrow(0, first / quant::kDynamicBlock, blocks());
  }
  // FP32 in place, or a copy.
  at::Tensor widened(const Moment& moment, const at::Tensor& table_256) const {
    if (!moment.scales.defined()) return of(moment.values).to(at::kFloat);
    at::Tensor values = at::index_select(table_256, 0, of(moment.values).to(at::kInt));
    values.view({blocks(), n / blocks()}).mul_(scales_of(moment).unsqueeze(1));
    return values;
  }
};

namespace {

// A uint32 as int32, the type that ATen computes in, modulo 2^32.
int64_t as_int32(uint32_t bits) { return static_cast<int32_t>(bits); }

// The draws of stochastic_rounding.h, int32 [n].
at::Tensor draw_bits(const DrawStream& stream, int64_t first, int64_t n, at::Device device) {
  at::Tensor bits = at::arange(n, at::TensorOptions().device(device).dtype(at::kInt));
  at::Tensor upper = at::empty_like(bits);
  const auto mix_down = [&](int places) {
    at::bitwise_right_shift_out(upper, bits, places);
    bits.bitwise_xor_(upper.bitwise_and_(as_int32(0xffffffffu >> places)));  // int32 is shifted with its sign
  };
  bits.add_(as_int32(static_cast<uint32_t>(first))).bitwise_xor_(as_int32(stream.first));
  mix_down(16);
  bits.mul_(as_int32(kFirstMix));
  mix_down(15);
  bits.add_(as_int32(added_for(stream, first))).mul_(as_int32(kSecondMix));
  mix_down(16);
  return bits;
}

// FP32 values become those of BF16, by draws from 0 to 65,535.
void round_by_chance(const at::Tensor& values, const at::Tensor& sixteen_bits) {
  const at::Tensor not_numbers = values.isnan();  // a GPU's has all bits set: adding to it would make it a zero
  values.view(at::kInt).add_(sixteen_bits).bitwise_and_(as_int32(0xffff0000u));
  values.masked_fill_(not_numbers, std::numeric_limits<double>::quiet_NaN());
}

// Codes and scales of quant/dynamic.h. Spoils the values.
void quantize(const at::Tensor& values_n, const at::Tensor& borders_255, at::Tensor scales, const at::Tensor& codes_n) {
  const int64_t blocks = scales.size(0);
  const at::Tensor rows = values_n.view({blocks, values_n.size(0) / blocks});
  at::linalg_vector_norm_out(scales, rows, std::numeric_limits<double>::infinity(), at::IntArrayRef({1}));
  scales.masked_fill_(scales.lt(quant::kSmallestMagnitude), 0);
  rows.mul_(scales.reciprocal().masked_fill_(scales.eq(0), 0).unsqueeze(1));
  codes_n.copy_(at::bucketize(values_n, borders_255, /*out_int32=*/true));
}

}  // namespace

at::Tensor MixedAdamW::weights_of(const Part& part) const {
  const Entry& entry = part.entry;
  if (!entry.master.defined()) return part.of(entry.parameter).to(at::kFloat);
  at::Tensor masters = part.of(entry.master);
  if (steps() == 1) masters.copy_(part.of(entry.parameter));
  return masters;
}

// bits: draws, of which weights take the upper half.
void MixedAdamW::store_weights(const Part& part, const at::Tensor& weights, const at::Tensor& bits) const {
  const at::Tensor& parameter = part.entry.parameter;
  if (parameter.scalar_type() == at::kFloat) return;  // changed in place
  if (rounds_by_chance(parameter)) {
    round_by_chance(weights, bits.bitwise_right_shift(16).bitwise_and_(as_int32(0xffff)));
  }
  part.of(parameter).copy_(weights);
}

void MixedAdamW::store_moments(const Part& part, const at::Tensor& first, const at::Tensor& second,
                               const at::Tensor& bits) const {
  const Entry& entry = part.entry;
  if (entry.first.scales.defined()) {
    quantize(first, tables_.first_borders_255, part.scales_of(entry.first), part.of(entry.first.values));
    quantize(second, tables_.second_borders_255, part.scales_of(entry.second), part.of(entry.second.values));
  } else if (entry.first.values.scalar_type() == at::kBFloat16) {
    part.of(entry.first.values).copy_(first);
    round_by_chance(second, bits.bitwise_and(as_int32(0xffff)));
    part.of(entry.second.values).copy_(second);
  }
}

void MixedAdamW::update_part(const Part& part, const kernels::AdamWStep& step, const DrawStream& draws,
                             const at::Tensor& gradient_factor) const {
  const Entry& entry = part.entry;
  at::Tensor gradient = part.of(part.gradient).to(at::kFloat);
  if (gradient_factor.defined()) gradient.mul_(gradient_factor);
  const at::Tensor weights = weights_of(part);
  const at::Tensor first = part.widened(entry.first, tables_.first_256);
  const at::Tensor second = part.widened(entry.second, tables_.second_256);
  first.mul_(step.beta1).add_(gradient, 1 - step.beta1);
  second.mul_(step.beta2).addcmul_(gradient, gradient, 1 - step.beta2);
  at::sqrt_out(gradient, second).div_(step.root_second).add_(step.epsilon);  // nobody reads the gradient again
  weights.mul_(step.keep).addcdiv_(first, gradient, -step.rate);
  gradient.reset();
  at::Tensor bits;
  if (rounds_by_chance(entry.parameter) || entry.second.values.scalar_type() == at::kBFloat16) {
    bits = draw_bits(draws, part.first, part.n, weights.device());
  }
  store_weights(part, weights, bits);
  store_moments(part, first, second, bits);
}

void MixedAdamW::update_by_operators(const Entry& entry, const kernels::AdamWStep& step, const DrawStream& draws,
                                     const at::Tensor& gradient_factor) const {
  const int64_t elements = entry.parameter.numel();
  const int64_t in_blocks = elements - elements % quant::kDynamicBlock;
  const at::Tensor gradient = entry.parameter.grad().contiguous();
  const auto update = [&](int64_t first, int64_t n) {
    update_part({entry, gradient, first, n}, step, draws, gradient_factor);
  };
  for (int64_t first = 0; first < in_blocks; first += kUpdatedAtOnce) {
    update(first, std::min(kUpdatedAtOnce, in_blocks - first));
  }
  if (elements > in_blocks) update(in_blocks, elements - in_blocks);
}

}  // namespace fathom::optim
