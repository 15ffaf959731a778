// LibTorch's flash and memory-efficient kernels, called beneath scaled_dot_product_attention, which has no argument for
// documents and windows and keeps keys and values as often as there are query heads; the derivative that LibTorch
// registers for the memory-efficient one forgets the window.
#include "ops/attention/cuda_attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <optional>

#include "base/rounding.h"
#include "ops/attention/attention_pairs.h"
#include "ops/attention/sinks.h"
#include "ops/given.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kCausal = 1;  // the memory-efficient kernel's mask: causal from the top left

// What the two kernels are told besides their tensors; lengths only count the arithmetic.
struct Limits {
  std::vector<int64_t> lengths;
  int64_t longest = 0;  // of the sequences
  int64_t window = 0;
  double scale = 1;
  // The flash kernel counts the positions before the query's own.
  std::optional<int64_t> window_left() const { return window > 0 ? std::optional<int64_t>(window - 1) : std::nullopt; }
  std::optional<int64_t> window_size() const { return window > 0 ? std::optional<int64_t>(window) : std::nullopt; }
};

void keep(AutogradContext* context, const Limits& limits) {
  context->saved_data["lengths"] = limits.lengths;
  context->saved_data["longest"] = limits.longest;
  context->saved_data["window"] = limits.window;
  context->saved_data["scale"] = limits.scale;
}

Limits kept(AutogradContext* context) {
  return {context->saved_data["lengths"].toIntVector(), context->saved_data["longest"].toInt(),
          context->saved_data["window"].toInt(), context->saved_data["scale"].toDouble()};
}

// The memory-efficient kernel does not know grouped queries. A single key head is shared by a stride of 0.
at::Tensor for_every_head(const at::Tensor& x_BSKE, int64_t heads) {
  const int64_t repeats = heads / x_BSKE.size(2);
  return repeats == 1 ? x_BSKE : x_BSKE.unsqueeze(3).expand({-1, -1, -1, repeats, -1}).flatten(2, 3);
}

at::Tensor summed_in_groups(const at::Tensor& x_BSHE, int64_t key_heads) {
  return x_BSHE.size(2) == key_heads ? x_BSHE : x_BSHE.unflatten(2, {key_heads, -1}).sum(3);
}

// Calls body(out_SHE, logsumexp_SH) for what has its log-sum-exps apart, views: the memory-efficient kernel pads those
// of each row, and of each document in the one row.
template <typename Body>
void for_each_text(const at::Tensor& out_BSHE, const at::Tensor& sums_NHS, const Limits& limits, bool packed,
                   const Body& body) {
  const at::Tensor sums_NSH = sums_NHS.transpose(1, 2);
  if (!packed) return body(out_BSHE, sums_NSH.narrow(1, 0, out_BSHE.size(1)));
  int64_t start = 0;
  for (size_t text = 0; text < limits.lengths.size(); ++text) {
    const int64_t length = limits.lengths[text];
    body(out_BSHE.select(0, 0).narrow(0, start, length),
         sums_NSH.select(0, static_cast<int64_t>(text)).narrow(0, 0, length));
    start += length;
  }
}

// q_THE and offsets; or q_BSHE and no offsets.
struct Flash : torch::autograd::Function<Flash> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const std::optional<at::Tensor>& sinks_H, const std::optional<at::Tensor>& offsets,
                            const Limits& limits) {
    const AttentionPairs pairs(q, limits.lengths, limits.window, AttentionPairs::kForward);
    const auto [out, sums, seed, offset, mask] =
        at::_flash_attention_forward(q, k, v, offsets, offsets, limits.longest, limits.longest, 0, true, false,
                                     limits.scale, limits.window_left(), std::nullopt);
    if (sinks_H) add_sinks(out, sums.transpose(-1, -2), *sinks_H);
    context->save_for_backward(
        {q, k, v, out, sums, seed, offset, offsets.value_or(at::Tensor()), sinks_H.value_or(at::Tensor())});
    keep(context, limits);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Limits limits = kept(context);
    const AttentionPairs pairs(saved[0], limits.lengths, limits.window, AttentionPairs::kBackward);
    at::Tensor grad_sinks_H;
    if (saved[8].defined() && context->needs_input_grad(3)) {
      grad_sinks_H = gradient_of_sinks(gradients[0], saved[3], saved[4].transpose(-1, -2), saved[8]);
    }
    const auto [q, k, v] = at::_flash_attention_backward(
        gradients[0], saved[0], saved[1], saved[2], saved[3], saved[4], saved[7], saved[7], limits.longest,
        limits.longest, 0, true, saved[5], saved[6], limits.scale, limits.window_left(), std::nullopt);
    return {q, k, v, grad_sinks_H, {}, {}};
  }
};

// q_BSHE, B = 1 with offsets. Keys and values are kept as they are and repeated for every query head once more.
struct MemoryEfficient : torch::autograd::Function<MemoryEfficient> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_BSHE, const at::Tensor& k_BSKE,
                            const at::Tensor& v_BSKE, const std::optional<at::Tensor>& sinks_H,
                            const std::optional<at::Tensor>& offsets, const Limits& limits) {
    const AttentionPairs pairs(q_BSHE, limits.lengths, limits.window, AttentionPairs::kForward);
    const int64_t heads = q_BSHE.size(2);
    const at::Tensor k_BSHE = for_every_head(k_BSKE, heads), v_BSHE = for_every_head(v_BSKE, heads);
    const auto [out_BSHE, sums, seed, offset, longest_q, longest_k] = at::_efficient_attention_forward(
        q_BSHE, k_BSHE, v_BSHE, std::nullopt, offsets, offsets, limits.longest, limits.longest, 0, kCausal,
        sinks_H || q_BSHE.requires_grad() || k_BSKE.requires_grad() || v_BSKE.requires_grad(), limits.scale,
        std::nullopt, limits.window_size());
    if (sinks_H) {
      for_each_text(out_BSHE, sums, limits, offsets.has_value(),
                    [&](const at::Tensor& out, const at::Tensor& logsumexp) { add_sinks(out, logsumexp, *sinks_H); });
    }
    context->save_for_backward({q_BSHE, k_BSKE, v_BSKE, out_BSHE, sums, seed, offset, offsets.value_or(at::Tensor()),
                                sinks_H.value_or(at::Tensor())});
    keep(context, limits);
    return out_BSHE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Limits limits = kept(context);
    const AttentionPairs pairs(saved[0], limits.lengths, limits.window, AttentionPairs::kBackward);
    const int64_t heads = saved[0].size(2), key_heads = saved[1].size(2);
    const std::optional<at::Tensor> borders = saved[7].defined() ? std::optional<at::Tensor>(saved[7]) : std::nullopt;
    at::Tensor grad_sinks_H;
    if (saved[8].defined() && context->needs_input_grad(3)) {
      grad_sinks_H = gradient_of_padded(gradients[0], saved[3], saved[4], limits, borders.has_value(), saved[8]);
    }
    at::Tensor k_BSHE = for_every_head(saved[1], heads), v_BSHE = for_every_head(saved[2], heads);
    auto [q, k, v, bias] =
        at::_efficient_attention_backward(gradients[0], saved[0], k_BSHE, v_BSHE, std::nullopt, saved[3], borders,
                                          borders, limits.longest, limits.longest, saved[4], 0, saved[5], saved[6],
                                          kCausal, false, limits.scale, std::nullopt, limits.window_size());
    k_BSHE.reset();
    v_BSHE.reset();
    v = context->needs_input_grad(2) ? summed_in_groups(v, key_heads) : at::Tensor();
    k = context->needs_input_grad(1) ? summed_in_groups(k, key_heads) : at::Tensor();
    return {q, k, v, grad_sinks_H, {}, {}};
  }

 private:
  static at::Tensor gradient_of_padded(const at::Tensor& grad_BSHE, const at::Tensor& out_BSHE, const at::Tensor& sums,
                                       const Limits& limits, bool packed, const at::Tensor& sinks_H) {
    const at::Tensor wide_sinks_H = sinks_H.to(at::kFloat), sum_H = at::zeros_like(wide_sinks_H);
    int64_t start = 0;
    for_each_text(out_BSHE, sums, limits, packed, [&](const at::Tensor& out, const at::Tensor& logsumexp) {
      const at::Tensor grad = packed ? grad_BSHE.select(0, 0).narrow(0, start, out.size(0)) : grad_BSHE;
      sum_H.add_(gradient_of_sinks(grad, out, logsumexp, wide_sinks_H));
      start += out.size(0);
    });
    return sum_H.to(sinks_H.scalar_type());
  }
};

}  // namespace

int64_t padded_head_size(int64_t head_size, at::ScalarType dtype) {
  const int64_t multiple = dtype == at::kFloat ? 4 : 8;
  return round_up(head_size, multiple);
}

at::Tensor cuda_attention(const at::Tensor& q_BSHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                          footprint::AttentionKernel kernel, const Documents* documents, int64_t window,
                          const at::Tensor& sinks_H) {
  const int64_t size = q_BSHE.size(3);
  const int64_t padding = padded_head_size(size, q_BSHE.scalar_type()) - size;
  const bool flash = kernel == footprint::AttentionKernel::kFlash;
  Limits limits;
  limits.lengths = documents != nullptr ? documents->lengths : std::vector<int64_t>(q_BSHE.size(0), q_BSHE.size(1));
  limits.longest = documents != nullptr ? documents->longest : q_BSHE.size(1);
  limits.window = window;
  limits.scale = 1 / std::sqrt(static_cast<double>(size));
  // Zeros at the end of a head change no product.
  const auto prepare = [&](const at::Tensor& x_BSHE) {
    const at::Tensor x = padding > 0 ? at::constant_pad_nd(x_BSHE, {0, padding}) : x_BSHE;
    return flash && documents != nullptr ? x.squeeze(0) : x;
  };
  const at::Tensor q = prepare(q_BSHE), k = prepare(k_BSKE), v = prepare(v_BSKE);
  const std::optional<at::Tensor> offsets =
      documents != nullptr ? std::optional<at::Tensor>(documents->offsets) : std::nullopt;
  const std::optional<at::Tensor> sinks = given(sinks_H);
  at::Tensor out =
      flash ? Flash::apply(q, k, v, sinks, offsets, limits) : MemoryEfficient::apply(q, k, v, sinks, offsets, limits);
  if (out.dim() == 3) out = out.unsqueeze(0);
  return padding > 0 ? out.narrow(-1, 0, size) : out;  // even of the whole, a view's gradient would be a copy
}

}  // namespace fathom::ops
