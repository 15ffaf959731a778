// AdamW in several types by LibTorch's operators, a group of parameters at a time: what is not FP32 is widened into
// buffers of the group, updated by the fused kernel and rounded back.
#include <ATen/ATen.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/split_mix.h"
#include "optim/mixed_adamw.h"
#include "quant/magnitude.h"

namespace fathom::optim {
namespace {

constexpr int64_t kBlock = quant::kDynamicBlock;

using Tensors = std::vector<at::Tensor>;

// Numbers of a group's spans, which lie one behind the other, each from the beginning of a block. Without `all` they
// lie where they are stored.
struct Buffer {
  at::Tensor all;
  Tensors spans;
};

Buffer cut(at::Tensor all, const footprint::UpdateGroup& group) {
  Buffer buffer{std::move(all), {}};
  int64_t start = 0;
  for (const footprint::Span& span : group) {
    buffer.spans.push_back(buffer.all.narrow(0, start, span.n));
    start += round_up(span.n, kBlock);
  }
  return buffer;
}

// A number for each block.
Buffer empty_scales(const footprint::UpdateGroup& group, const at::TensorOptions& options) {
  Buffer buffer{at::empty({footprint::elements_of(group) / kBlock}, options.dtype(at::kFloat)), {}};
  int64_t start = 0;
  for (const footprint::Span& span : group) {
    const int64_t blocks = divide_up(span.n, kBlock);
    buffer.spans.push_back(buffer.all.narrow(0, start, blocks));
    start += blocks;
  }
  return buffer;
}

Buffer in_fp32(Tensors stored, const footprint::UpdateGroup& group) {
  if (stored.front().scalar_type() == at::kFloat) return {{}, std::move(stored)};
  const at::TensorOptions options = stored.front().options().dtype(at::kFloat);
  Buffer copies = cut(at::empty({footprint::elements_of(group)}, options), group);
  at::_foreach_copy_(copies.spans, stored);
  return copies;
}

// A uint32 as int32, the type that ATen computes in, modulo 2^32.
int64_t as_int32(uint32_t bits) { return static_cast<int32_t>(bits); }

// The draws of stochastic_rounding.h, int32 [elements of the group]. streams: one for each span.
at::Tensor draw_bits(const std::vector<cpu::DrawStream>& streams, const footprint::UpdateGroup& group,
                     const at::TensorOptions& options) {
  const Buffer drawn = cut(at::arange(footprint::elements_of(group), options.dtype(at::kInt)), group);
  const at::Tensor& bits = drawn.all;
  at::Tensor upper = at::empty_like(bits);
  const auto mix_down = [&](int places) {
    at::bitwise_right_shift_out(upper, bits, places);
    bits.bitwise_xor_(upper.bitwise_and_(as_int32(0xffffffffu >> places)));  // int32 is shifted with its sign
  };
  std::vector<at::Scalar> starts, added;
  for (size_t i = 0; i < group.size(); ++i) {
    const int64_t start = drawn.spans[i].storage_offset();
    const int64_t first = streams[i].origin + group[i].first;
    starts.emplace_back(as_int32(static_cast<uint32_t>(first - start)));
    added.emplace_back(as_int32(cpu::added_for(streams[i], first)));
  }
  at::_foreach_add_(drawn.spans, starts);
  for (size_t i = 0; i < group.size(); ++i) drawn.spans[i].bitwise_xor_(as_int32(streams[i].first));
  mix_down(16);
  bits.mul_(as_int32(cpu::kFirstMix));
  mix_down(15);
  at::_foreach_add_(drawn.spans, added);
  bits.mul_(as_int32(cpu::kSecondMix));
  mix_down(16);
  return bits;
}

// FP32 values become those of BF16, by draws from 0 to 65,535.
void round_stochastically(const at::Tensor& values, const at::Tensor& sixteen_bits) {
  const at::Tensor not_numbers = values.isnan();  // a GPU's has all bits set: adding to it would make it a zero
  values.view(at::kInt).add_(sixteen_bits).bitwise_and_(as_int32(0xffff0000u));
  values.masked_fill_(not_numbers, std::numeric_limits<double>::quiet_NaN());
}

}  // namespace

// One group of an optimizer's parameters.
struct MixedAdamW::Group {
  const MixedAdamW& optimizer;
  std::span<const Entry> entries;
  const footprint::UpdateGroup& spans;

  void update(double learning_rate, const std::optional<at::Tensor>& gradient_divisor) const;
  uint64_t shape_hash() const;  // of all that sizes and types of an update's tensors depend on

  const Entry& entry(size_t span) const { return entries[spans[span].parameter]; }
  const Entry& any() const { return entry(0); }  // for what all have in common
  // The spans of a tensor that every entry has: contiguous, of the parameter's size.
  template <typename TensorOf>
  Tensors of(const TensorOf& tensor_of) const {
    Tensors parts;
    for (size_t i = 0; i < spans.size(); ++i) {
      parts.push_back(tensor_of(entry(i)).view({-1}).narrow(0, spans[i].first, spans[i].n));
    }
    return parts;
  }
  Tensors parameters() const {
    return of([](const Entry& entry) { return entry.parameter; });
  }
  Tensors values(Moment Entry::*moment) const {
    return of([&](const Entry& entry) { return (entry.*moment).values; });
  }
  Tensors scales(Moment Entry::*moment) const;

  Buffer weights() const;
  Buffer widened(Moment Entry::*moment, const Table& table) const;
  void update_in_fp32(const std::array<Buffer, 4>& numbers, double learning_rate,
                      const std::optional<at::Tensor>& gradient_divisor) const;
  at::Tensor draws() const;
  void store_weights(const Buffer& weights, const at::Tensor& bits) const;
  void store_moments(const Buffer& first, const Buffer& second, const at::Tensor& bits) const;
  void quantize(const Buffer& numbers, Moment Entry::*moment, const Table& table) const;
};

Tensors MixedAdamW::Group::scales(Moment Entry::*moment) const {
  Tensors parts;
  for (size_t i = 0; i < spans.size(); ++i) {
    parts.push_back((entry(i).*moment).scales.narrow(0, spans[i].first / kBlock, divide_up(spans[i].n, kBlock)));
  }
  return parts;
}

// The parameters themselves, their masters, or copies.
Buffer MixedAdamW::Group::weights() const {
  if (!any().master.defined()) return in_fp32(parameters(), spans);
  Tensors masters = of([](const Entry& entry) { return entry.master; });
  if (optimizer.steps() == 1) at::_foreach_copy_(masters, parameters());
  return {{}, std::move(masters)};
}

Buffer MixedAdamW::Group::widened(Moment Entry::*moment, const Table& table) const {
  if (!(any().*moment).scales.defined()) return in_fp32(values(moment), spans);
  at::Tensor numbers;
  {
    // Zeros fill up short blocks: they are no block's largest magnitude.
    const at::TensorOptions options = table.values_256.options().dtype(at::kInt);
    const Buffer indices = cut(at::full({footprint::elements_of(spans)}, table.zero, options), spans);
    at::_foreach_copy_(indices.spans, values(moment));
    numbers = at::index_select(table.values_256, 0, indices.all);
  }
  const Buffer of_blocks = empty_scales(spans, numbers.options());
  at::_foreach_copy_(of_blocks.spans, scales(moment));
  numbers.view({-1, kBlock}).mul_(of_blocks.all.unsqueeze(1));
  return cut(std::move(numbers), spans);
}

// numbers: weights, gradients, first and second moments. One launch for a few dozen spans of one weight decay.
void MixedAdamW::Group::update_in_fp32(const std::array<Buffer, 4>& numbers, double learning_rate,
                                       const std::optional<at::Tensor>& gradient_divisor) const {
  const AdamWOptions& options = optimizer.options_.update;
  for (const bool decays : {true, false}) {
    std::array<Tensors, 4> lists;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (entry(i).decays != decays) continue;
      for (size_t list = 0; list < lists.size(); ++list) lists[list].push_back(numbers[list].spans[i]);
    }
    const auto& [weights, gradients, first, second] = lists;
    if (weights.empty()) continue;
    at::_fused_adamw_(weights, gradients, first, second, {}, Tensors(weights.size(), optimizer.count_of_steps_),
                      learning_rate, options.beta1, options.beta2, decays ? options.weight_decay : 0, options.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, gradient_divisor);
  }
}

at::Tensor MixedAdamW::Group::draws() const {
  std::vector<cpu::DrawStream> streams;
  for (size_t i = 0; i < spans.size(); ++i) streams.push_back(optimizer.draw_stream(entry(i)));
  return draw_bits(streams, spans, any().parameter.options());
}

// bits: draws, of which weights take the upper half.
void MixedAdamW::Group::store_weights(const Buffer& weights, const at::Tensor& bits) const {
  if (any().parameter.scalar_type() == at::kFloat) return;  // changed in place
  if (optimizer.rounds_stochastically(any().parameter)) {
    round_stochastically(weights.all, bits.bitwise_right_shift(16).bitwise_and_(as_int32(0xffff)));
  }
  at::_foreach_copy_(parameters(), weights.spans);
}

void MixedAdamW::Group::store_moments(const Buffer& first, const Buffer& second, const at::Tensor& bits) const {
  if (any().first.scales.defined()) {
    quantize(first, &Entry::first, optimizer.tables_.first);
    quantize(second, &Entry::second, optimizer.tables_.second);
  } else if (any().first.values.scalar_type() == at::kBFloat16) {
    at::_foreach_copy_(values(&Entry::first), first.spans);
    round_stochastically(second.all, bits.bitwise_and(as_int32(0xffff)));
    at::_foreach_copy_(values(&Entry::second), second.spans);
  }
}

// Codes and scales of quant/dynamic.h. Spoils the numbers.
void MixedAdamW::Group::quantize(const Buffer& numbers, Moment Entry::*moment, const Table& table) const {
  const at::Tensor rows = numbers.all.view({-1, kBlock});
  const Buffer largest = empty_scales(spans, rows.options());
  at::Tensor of_blocks = largest.all;
  at::linalg_vector_norm_out(of_blocks, rows, std::numeric_limits<double>::infinity(), at::IntArrayRef({1}));
  of_blocks.masked_fill_(of_blocks.lt(quant::kSmallestMagnitude), 0);
  rows.mul_(of_blocks.reciprocal().masked_fill_(of_blocks.eq(0), 0).unsqueeze(1));
  at::_foreach_copy_(scales(moment), largest.spans);
  const Buffer codes = cut(at::bucketize(numbers.all, table.borders_255, /*out_int32=*/true), spans);
  at::_foreach_copy_(values(moment), codes.spans);
}

void MixedAdamW::Group::update(double learning_rate, const std::optional<at::Tensor>& gradient_divisor) const {
  const Buffer first = widened(&Entry::first, optimizer.tables_.first);
  const Buffer second = widened(&Entry::second, optimizer.tables_.second);
  const Buffer weights = this->weights();
  {
    Buffer gradients = in_fp32(of([](const Entry& entry) { return entry.gradient.contiguous(); }), spans);
    update_in_fp32({weights, std::move(gradients), first, second}, learning_rate, gradient_divisor);
  }
  at::Tensor bits;
  if (optimizer.rounds_stochastically(any().parameter) || any().second.values.scalar_type() == at::kBFloat16) {
    bits = draws();
  }
  store_weights(weights, bits);
  store_moments(first, second, bits);
}

uint64_t MixedAdamW::Group::shape_hash() const {
  NumberHash hash;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Entry& each = entry(i);
    const at::Tensor& gradient = each.gradient;
    hash.add(static_cast<uint64_t>(spans[i].n));
    hash.add(each.decays ? 1 : 0);
    for (const at::Tensor& tensor : {each.parameter, gradient, each.master, each.first.values, each.second.values}) {
      hash.add(static_cast<uint64_t>(tensor.defined() ? tensor.scalar_type() : at::ScalarType::Undefined));
    }
    if (!gradient.is_contiguous()) hash.add(static_cast<uint64_t>(gradient.numel()));  // it is copied whole
  }
  return hash.value();
}

void MixedAdamW::update_by_operators(std::span<const Entry> entries, double learning_rate,
                                     const at::Tensor& gradient_factor) const {
  std::vector<footprint::UpdatedParameter> parameters;
  for (const Entry& entry : entries) {
    parameters.push_back({entry.parameter.numel(), entry.parameter.scalar_type() != at::kFloat,
                          entry.first.scales.defined(), entry.origin});
  }
  std::optional<at::Tensor> divisor;
  if (gradient_factor.defined()) divisor = gradient_factor.reciprocal();
  for (const footprint::UpdateGroup& spans : footprint::update_groups(parameters)) {
    const Group group{*this, entries, spans};
    repeat(group.shape_hash(), [&] { group.update(learning_rate, divisor); });
  }
}

}  // namespace fathom::optim
