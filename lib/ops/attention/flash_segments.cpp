// One call of LibTorch's CPU flash kernel for each segment; groups of query heads share their key head by a stride of
// 0.
#include "ops/attention/flash_segments.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "footprint/attention_segments.h"
#include "ops/attention/attention_pairs.h"
#include "ops/attention/math_attention.h"
#include "ops/attention/sinks.h"
#include "ops/given.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Tokens of x_THE as the kernel takes them: each of K key heads a row of the batch, [K, rep, S, E] (or [K, rep, S]).
at::Tensor rows_of_groups(const at::Tensor& x_TH, int64_t first, int64_t count, int64_t key_heads) {
  const at::Tensor x_SKR = x_TH.narrow(0, first, count).unflatten(1, {key_heads, -1});
  return x_SKR.movedim(0, 2);
}

// What a block of queries does not see of its keys: before i and from i + window on, as numbers to add.
at::Tensor window_mask(const std::vector<footprint::AttentionSegment>& segments, int64_t window,
                       const at::TensorOptions& options) {
  int64_t rows = 0;
  for (const footprint::AttentionSegment& segment : segments)
    rows = std::max(rows, segment.windowed ? segment.queries : 0);
  if (rows == 0) return {};
  const int64_t columns = window - 1 + rows;
  const at::Tensor mask = at::full({rows, columns}, -std::numeric_limits<double>::infinity(), options);
  return mask.masked_fill_(at::ones({rows, columns}, options.dtype(at::kBool)).triu_().tril_(window - 1), 0);
}

std::optional<at::Tensor> mask_of(const footprint::AttentionSegment& segment, const at::Tensor& mask) {
  if (!segment.windowed) return std::nullopt;
  return mask.narrow(0, 0, segment.queries).narrow(1, 0, segment.keys);
}

// A segment's gradients of keys or values for every query head, added up where they belong. Blocks of a window overlap.
void add_to_keys(const at::Tensor& sum_TKE, const at::Tensor& made_KRSE, const footprint::AttentionSegment& segment,
                 bool overlap) {
  at::Tensor sum_KSE = rows_of_groups(sum_TKE, segment.first_key, segment.keys, sum_TKE.size(1)).squeeze(1);
  if (!overlap && made_KRSE.size(1) > 1) {
    at::sum_out(sum_KSE, made_KRSE, 1);
  } else if (!overlap) {
    sum_KSE.copy_(made_KRSE.squeeze(1));
  } else {
    const at::Tensor made_KSE = made_KRSE.size(1) > 1 ? made_KRSE.sum(1) : made_KRSE.squeeze(1);
    sum_KSE.add_(made_KSE.to(sum_KSE.scalar_type()));
  }
}

struct FlashSegments : torch::autograd::Function<FlashSegments> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_THE, const at::Tensor& k_TKE,
                            const at::Tensor& v_TKE, const std::optional<at::Tensor>& sinks_H,
                            const std::vector<int64_t>& lengths, int64_t window) {
    const int64_t key_heads = k_TKE.size(1), repeats = q_THE.size(1) / key_heads;
    const AttentionPairs pairs(q_THE, lengths, window, AttentionPairs::kForward);
    const std::vector<footprint::AttentionSegment> segments = footprint::attention_segments(lengths, window);
    at::Tensor out_THE = at::empty_like(q_THE);
    at::Tensor sums_TH =
        at::empty({q_THE.size(0), q_THE.size(1)}, q_THE.options().dtype(at::toOpMathType(q_THE.scalar_type())));
    const at::Tensor mask = window_mask(segments, window, q_THE.options());
    for (const footprint::AttentionSegment& segment : segments) {
      const auto shared = [&](const at::Tensor& x_TKE) {
        return rows_of_groups(x_TKE, segment.first_key, segment.keys, key_heads).expand({-1, repeats, -1, -1});
      };
      const auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
          rows_of_groups(q_THE, segment.first_query, segment.queries, key_heads), shared(k_TKE), shared(v_TKE), 0,
          !segment.windowed, mask_of(segment, mask), scale_of(q_THE));
      rows_of_groups(out_THE, segment.first_query, segment.queries, key_heads).copy_(out);
      rows_of_groups(sums_TH, segment.first_query, segment.queries, key_heads).copy_(sums);
    }
    if (sinks_H) add_sinks(out_THE, sums_TH, *sinks_H);
    context->save_for_backward({q_THE, k_TKE, v_TKE, out_THE, sums_TH, sinks_H.value_or(at::Tensor())});
    context->saved_data["lengths"] = lengths;
    context->saved_data["window"] = window;
    return out_THE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q_THE = saved[0], &k_TKE = saved[1], &v_TKE = saved[2];
    const std::vector<int64_t> lengths = context->saved_data["lengths"].toIntVector();
    const int64_t window = context->saved_data["window"].toInt();
    const int64_t key_heads = k_TKE.size(1), repeats = q_THE.size(1) / key_heads;
    const AttentionPairs pairs(q_THE, lengths, window, AttentionPairs::kBackward);
    const std::vector<footprint::AttentionSegment> segments = footprint::attention_segments(lengths, window);
    const at::Tensor mask = window_mask(segments, window, q_THE.options());
    const bool overlap = mask.defined();
    at::Tensor grad_sinks_H;
    if (saved[5].defined() && context->needs_input_grad(3)) {
      grad_sinks_H = gradient_of_sinks(gradients[0], saved[3], saved[4], saved[5]);
    }
    at::Tensor grad_q_THE = at::empty_like(q_THE);
    // Sums of many blocks, rounded once.
    const auto empty_keys = [&] {
      return overlap ? at::zeros(k_TKE.sizes(), k_TKE.options().dtype(at::toOpMathType(k_TKE.scalar_type())))
                     : at::empty_like(k_TKE);
    };
    at::Tensor grad_k_TKE = empty_keys(), grad_v_TKE = empty_keys();
    for (const footprint::AttentionSegment& segment : segments) {
      const auto of_queries = [&](const at::Tensor& x_TH) {
        return rows_of_groups(x_TH, segment.first_query, segment.queries, key_heads);
      };
      const auto shared = [&](const at::Tensor& x_TKE) {
        return rows_of_groups(x_TKE, segment.first_key, segment.keys, key_heads).expand({-1, repeats, -1, -1});
      };
      auto [made_q, made_k, made_v] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          of_queries(gradients[0]), of_queries(q_THE), shared(k_TKE), shared(v_TKE), of_queries(saved[3]),
          of_queries(saved[4]), 0, !segment.windowed, mask_of(segment, mask), scale_of(q_THE));
      of_queries(grad_q_THE).copy_(std::exchange(made_q, at::Tensor()));
      add_to_keys(grad_k_TKE, std::exchange(made_k, at::Tensor()), segment, overlap);
      add_to_keys(grad_v_TKE, std::exchange(made_v, at::Tensor()), segment, overlap);
    }
    const auto rounded = [type = k_TKE.scalar_type()](at::Tensor& sum) { return std::exchange(sum, {}).to(type); };
    return {grad_q_THE, rounded(grad_k_TKE), rounded(grad_v_TKE), grad_sinks_H, {}, {}};
  }
};

}  // namespace

at::Tensor flash_segments(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                          const std::vector<int64_t>& document_lengths, int64_t window, const at::Tensor& sinks_H) {
  return FlashSegments::apply(q_THE, k_TKE, v_TKE, given(sinks_H), document_lengths, window);
}

}  // namespace fathom::ops
