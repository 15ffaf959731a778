// Causal self-attention over LibTorch's fused kernels, with groups of query heads folded instead of keys and values
// copied.
#include "ops/attention/attention.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <limits>

#include "base/error.h"
#include "footprint/cudnn_workspace.h"
#include "ops/attention/amx_attention.h"
#include "ops/attention/cuda_attention.h"
#include "ops/attention/flash_segments.h"
#include "ops/attention/math_attention.h"

namespace fathom::ops {
namespace {

constexpr int64_t kChoiceFlash = 1, kChoiceMemoryEfficient = 2;  // at::SDPBackend

// The CPU's flash kernel reads keys and values through strides: each key head becomes a batch row whose query heads
// share it by a stride of 0. Only gradients of keys and values are ever made for every query head.
at::Tensor cpu_flash_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE) {
  const int64_t rows = q_BHSE.size(0), heads = q_BHSE.size(1), length = q_BHSE.size(2), size = q_BHSE.size(3);
  const int64_t key_heads = k_BKSE.size(1), repeats = heads / key_heads, groups = rows * key_heads;
  if (repeats == 1) return at::scaled_dot_product_attention(q_BHSE, k_BKSE, v_BKSE, {}, 0, true);
  auto share = [&](const at::Tensor& x_BKSE) {
    return x_BKSE.reshape({groups, 1, length, size}).expand({groups, repeats, length, size});
  };
  const at::Tensor out = at::scaled_dot_product_attention(q_BHSE.reshape({groups, repeats, length, size}),
                                                          share(k_BKSE), share(v_BKSE), {}, 0, true);
  return out.unflatten(0, {rows, key_heads}).flatten(1, 2);
}

at::Tensor cuda_flash_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE) {
  return at::scaled_dot_product_attention(q_BHSE, k_BKSE, v_BKSE, {}, 0, true, {}, q_BHSE.size(1) != k_BKSE.size(1));
}

// [B, S, H * E], contiguous, of [B, S, H, E] or [B * S, H, E]: with E = 1 a reshape could stay a view of any strides.
at::Tensor joined_heads(const at::Tensor& out, int64_t rows, int64_t length) {
  return out.contiguous().view({rows, length, -1});
}

bool wants_gradients(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  return at::GradMode::is_enabled() && (q.requires_grad() || k.requires_grad() || v.requires_grad());
}

at::Tensor attend(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE,
                  footprint::AttentionKernel kernel) {
  if (kernel == footprint::AttentionKernel::kMath) return math_attention(q_BHSE, k_BKSE, v_BKSE, 0);
  if (kernel == footprint::AttentionKernel::kCudnn) {
    const bool keeps_sums = wants_gradients(q_BHSE, k_BKSE, v_BKSE);
    return std::get<0>(at::_scaled_dot_product_cudnn_attention(q_BHSE, k_BKSE, v_BKSE, {}, keeps_sums, 0, true));
  }
  return q_BHSE.is_cuda() ? cuda_flash_attention(q_BHSE, k_BKSE, v_BKSE) : cpu_flash_attention(q_BHSE, k_BKSE, v_BKSE);
}

// Rows of a batch are documents of one length.
std::vector<int64_t> lengths_of(const at::Tensor& q_BSHE, const Documents* documents) {
  return documents != nullptr ? documents->lengths : std::vector<int64_t>(q_BSHE.size(0), q_BSHE.size(1));
}

// Where documents or a window keep a query from what lies before it, or sinks take a share of it; on CUDA also where
// nothing does.
at::Tensor limited_attention(const at::Tensor& q_BSHE, const at::Tensor& k_BSKE, const at::Tensor& v_BSKE,
                             footprint::AttentionKernel kernel, const Documents* documents, int64_t window,
                             const at::Tensor& sinks_H) {
  if (kernel == footprint::AttentionKernel::kMath && documents == nullptr) {
    return math_attention(q_BSHE.transpose(1, 2), k_BSKE.transpose(1, 2), v_BSKE.transpose(1, 2), window, sinks_H)
        .transpose(1, 2);
  }
  if (kernel == footprint::AttentionKernel::kMemoryEfficient ||
      (q_BSHE.is_cuda() && kernel == footprint::AttentionKernel::kFlash)) {
    return cuda_attention(q_BSHE, k_BSKE, v_BSKE, kernel, documents, window, sinks_H);
  }
  const std::vector<int64_t> lengths = lengths_of(q_BSHE, documents);
  const auto attend_documents =
      kernel == footprint::AttentionKernel::kMath ? &document_math_attention : &flash_segments;
  return attend_documents(q_BSHE.flatten(0, 1), k_BSKE.flatten(0, 1), v_BSKE.flatten(0, 1), lengths, window, sinks_H);
}

// What is added to scores of the last of so many positions where pairs do not see each other; undefined: nothing, as
// the last one sees them all.
at::Tensor mask_behind(int64_t length, int64_t positions, int64_t window, const at::TensorOptions& options) {
  if (length == 1) return {};
  at::Tensor seen = at::ones({length, positions}, options.dtype(at::kBool)).tril_(positions - length);
  if (window > 0) seen.triu_(positions - length + 1 - window);
  const at::Tensor mask = at::full({length, positions}, -std::numeric_limits<double>::infinity(), options);
  return mask.masked_fill_(seen, 0);
}

// The last S of C positions, which the queries are of: query heads of one group become queries of its key head.
at::Tensor attend_behind(const at::Tensor& q_BSHE, const at::Tensor& k_BKCE, const at::Tensor& v_BKCE,
                         footprint::AttentionKernel kernel, int64_t window) {
  const int64_t rows = q_BSHE.size(0), length = q_BSHE.size(1), heads = q_BSHE.size(2), size = q_BSHE.size(3);
  const int64_t key_heads = k_BKCE.size(1), repeats = heads / key_heads, positions = k_BKCE.size(2);
  const at::Tensor q_BKNE = q_BSHE.transpose(1, 2).reshape({rows, key_heads, repeats * length, size});
  std::optional<at::Tensor> mask_NC;
  if (length > 1) mask_NC = mask_behind(length, positions, window, q_BSHE.options()).repeat({repeats, 1});
  const at::Tensor out_BKNE = kernel == footprint::AttentionKernel::kMath
                                  ? std::get<0>(at::_scaled_dot_product_attention_math(q_BKNE, k_BKCE, v_BKCE, mask_NC))
                                  : at::scaled_dot_product_attention(q_BKNE, k_BKCE, v_BKCE, mask_NC);
  return joined_heads(out_BKNE.reshape({rows, heads, length, size}).transpose(1, 2), rows, length);
}

}  // namespace

footprint::AttentionKernel attention_kernel(config::Attention attention, at::Device device, at::ScalarType dtype,
                                            int64_t head_size, bool sinks) {
  if (attention == config::Attention::kMath) return footprint::AttentionKernel::kMath;
  if (attention == config::Attention::kCudnn) {
    if (!device.is_cuda()) throw UsageError("attn_implementation: cudnn needs a GPU", "set attn_implementation: flash");
    if (sinks) {
      throw UsageError(std::string("attn_implementation: cudnn ") + footprint::kCudnnHasNoSinks,
                       "set attn_implementation: flash");
    }
    const auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
    if (footprint::knows_cudnn(bytes, head_size)) return footprint::AttentionKernel::kCudnn;
    throw UsageError(std::string("attn_implementation: cudnn ") + footprint::kCudnnKnows,
                     "set attn_implementation: flash");
  }
  if (!device.is_cuda()) return footprint::AttentionKernel::kFlash;
  at::globalContext().setSDPUseCuDNN(false);  // the first in LibTorch's order: it prepares itself for each length
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  const at::Tensor probe = at::empty({1, 1, 2, padded_head_size(head_size, dtype)}, options).set_requires_grad(true);
  const int64_t choice = at::_fused_sdp_choice(probe, probe, probe, {}, 0, true);
  if (choice == kChoiceFlash) return footprint::AttentionKernel::kFlash;
  if (choice == kChoiceMemoryEfficient) return footprint::AttentionKernel::kMemoryEfficient;
  throw UsageError("this GPU has no fused attention kernel for " + std::string(at::toString(dtype)) +
                       " with heads of " + std::to_string(head_size),
                   "set attn_implementation: math");
}

at::Tensor causal_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE,
                            footprint::AttentionKernel kernel, const Documents* documents, int64_t window,
                            const at::Tensor& sinks_H) {
  const int64_t rows = queries_BSHE.size(0), length = queries_BSHE.size(1);
  if (window >= (documents != nullptr ? documents->longest : length)) window = 0;
  // LibTorch keeps rows of one token from cuDNN.
  const bool is_flashs = documents != nullptr || window > 0 || length == 1 || sinks_H.defined();
  if (kernel == footprint::AttentionKernel::kCudnn && is_flashs) kernel = footprint::AttentionKernel::kFlash;
  if (kernel == footprint::AttentionKernel::kFlash && window == 0 &&
      has_amx_attention(queries_BSHE.device(), queries_BSHE.scalar_type())) {
    return amx_attention(queries_BSHE.flatten(0, 1), keys_BSKE.flatten(0, 1), values_BSKE.flatten(0, 1),
                         lengths_of(queries_BSHE, documents), sinks_H)
        .view({rows, length, -1});
  }
  const bool limited = documents != nullptr || window > 0 || sinks_H.defined();
  if (!limited && kernel != footprint::AttentionKernel::kMemoryEfficient) {
    const at::Tensor out_BHSE =
        attend(queries_BSHE.transpose(1, 2), keys_BSKE.transpose(1, 2), values_BSKE.transpose(1, 2), kernel);
    return joined_heads(out_BHSE.transpose(1, 2), rows, length);
  }
  return joined_heads(limited_attention(queries_BSHE, keys_BSKE, values_BSKE, kernel, documents, window, sinks_H), rows,
                      length);
}

at::Tensor cached_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BKCE, const at::Tensor& values_BKCE,
                            footprint::AttentionKernel kernel, int64_t window, const at::Tensor& sinks_H) {
  const int64_t length = queries_BSHE.size(1), positions = keys_BKCE.size(2);
  if (kernel == footprint::AttentionKernel::kCudnn) kernel = footprint::AttentionKernel::kFlash;
  if (length == positions) {
    return causal_attention(queries_BSHE, keys_BKCE.transpose(1, 2), values_BKCE.transpose(1, 2), kernel, nullptr,
                            window, sinks_H);
  }
  // What none of the queries sees is left out.
  const int64_t seen = window > 0 ? std::min(positions, window - 1 + length) : positions;
  const at::Tensor k_BKCE = keys_BKCE.narrow(2, positions - seen, seen),
                   v_BKCE = values_BKCE.narrow(2, positions - seen, seen);
  if (!sinks_H.defined()) return attend_behind(queries_BSHE, k_BKCE, v_BKCE, kernel, window);
  const at::Tensor mask_SC = mask_behind(length, seen, window, queries_BSHE.options().dtype(at::kFloat));
  const at::Tensor out_BHSE = masked_math_attention(queries_BSHE.transpose(1, 2), k_BKCE, v_BKCE, mask_SC, sinks_H);
  return joined_heads(out_BHSE.transpose(1, 2), queries_BSHE.size(0), length);
}

}  // namespace fathom::ops
