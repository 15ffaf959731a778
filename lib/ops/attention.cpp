// Causal self-attention over LibTorch's fused kernels, with groups of query heads folded instead of keys and values
// copied.
#include "ops/attention.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>
#include <limits>

#include "base/error.h"

namespace fathom::ops {
namespace {

constexpr int64_t kChoiceFlash = 1, kChoiceMemoryEfficient = 2;  // at::SDPBackend

// CUDA's fused kernels read heads in whole vectors: 16-bit types in 8s, FP32 in 4s.
int64_t padded_head_size(int64_t head_size, at::ScalarType dtype) {
  const int64_t multiple = dtype == at::kFloat ? 4 : 8;
  return (head_size + multiple - 1) / multiple * multiple;
}

double softmax_scale(int64_t head_size) { return 1 / std::sqrt(static_cast<double>(head_size)); }

// softmax(scale q k^T + causal) v, keeping q, k, v and the probabilities in their own type.
// q_GNE: G groups of N = rep * S queries; k_GSE, v_GSE. Masked probabilities are 0, so the backward pass needs no mask.
struct MathAttention : torch::autograd::Function<MathAttention> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& q_GNE, const at::Tensor& k_GSE,
                            const at::Tensor& v_GSE) {
    const int64_t groups = q_GNE.size(0), length = k_GSE.size(1), repeats = q_GNE.size(1) / length;
    at::Tensor scores_GNS = at::bmm(q_GNE, k_GSE.transpose(1, 2)).mul_(softmax_scale(q_GNE.size(2)));
    const at::Tensor future_SS = at::ones({length, length}, q_GNE.options().dtype(at::kBool)).triu_(1);
    scores_GNS.view({groups, repeats, length, length})
        .masked_fill_(future_SS, -std::numeric_limits<double>::infinity());
    const at::Tensor probabilities_GNS = at::_softmax(scores_GNS, -1, false);
    context->save_for_backward({q_GNE, k_GSE, v_GSE, probabilities_GNS});
    return at::bmm(probabilities_GNS, v_GSE);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q_GNE = saved[0], &k_GSE = saved[1], &v_GSE = saved[2], &p_GNS = saved[3];
    const double scale = softmax_scale(q_GNE.size(2));
    at::Tensor grad_v_GSE = at::bmm(p_GNS.transpose(1, 2), gradients[0]);
    at::Tensor grad_GNS = at::bmm(gradients[0], v_GSE.transpose(1, 2));
    grad_GNS = at::_softmax_backward_data(grad_GNS, p_GNS, -1, p_GNS.scalar_type());
    at::Tensor grad_q_GNE = at::bmm(grad_GNS, k_GSE).mul_(scale);
    at::Tensor grad_k_GSE = at::bmm(grad_GNS.transpose(1, 2), q_GNE).mul_(scale);
    return {grad_q_GNE, grad_k_GSE, grad_v_GSE};
  }
};

at::Tensor math_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE) {
  const int64_t rows = q_BHSE.size(0), heads = q_BHSE.size(1), length = q_BHSE.size(2), size = q_BHSE.size(3);
  const int64_t key_heads = k_BKSE.size(1), groups = rows * key_heads;
  const at::Tensor out_GNE =
      MathAttention::apply(q_BHSE.reshape({groups, heads / key_heads * length, size}),
                           k_BKSE.reshape({groups, length, size}), v_BKSE.reshape({groups, length, size}));
  return out_GNE.view({rows, heads, length, size});
}

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

// Knows neither grouped queries nor head sizes that are no multiple of a vector. Zeros at the end of a head change no
// product.
at::Tensor memory_efficient_attention(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE) {
  const int64_t heads = q_BHSE.size(1), size = q_BHSE.size(3), repeats = heads / k_BKSE.size(1);
  const int64_t padding = padded_head_size(size, q_BHSE.scalar_type()) - size;
  auto prepare = [&](at::Tensor x, bool grouped) {
    if (padding > 0) x = at::constant_pad_nd(x, {0, padding});
    if (grouped && repeats > 1) x = x.unsqueeze(2).expand({-1, -1, repeats, -1, -1}).flatten(1, 2);
    return x;
  };
  const at::Tensor out = at::scaled_dot_product_attention(prepare(q_BHSE, false), prepare(k_BKSE, true),
                                                          prepare(v_BKSE, true), {}, 0, true, softmax_scale(size));
  return out.narrow(-1, 0, size);
}

at::Tensor joined_heads(const at::Tensor& out_BHSE) {
  return out_BHSE.transpose(1, 2).reshape({out_BHSE.size(0), out_BHSE.size(2), out_BHSE.size(1) * out_BHSE.size(3)});
}

at::Tensor attend(const at::Tensor& q_BHSE, const at::Tensor& k_BKSE, const at::Tensor& v_BKSE,
                  AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kMath:
      return math_attention(q_BHSE, k_BKSE, v_BKSE);
    case AttentionKernel::kMemoryEfficient:
      return memory_efficient_attention(q_BHSE, k_BKSE, v_BKSE);
    case AttentionKernel::kFlash:
      break;
  }
  return q_BHSE.is_cuda() ? cuda_flash_attention(q_BHSE, k_BKSE, v_BKSE) : cpu_flash_attention(q_BHSE, k_BKSE, v_BKSE);
}

}  // namespace

AttentionKernel attention_kernel(config::Attention attention, at::Device device, at::ScalarType dtype,
                                 int64_t head_size) {
  if (attention == config::Attention::kMath) return AttentionKernel::kMath;
  if (!device.is_cuda()) return AttentionKernel::kFlash;
  // cuDNN's kernel plans for each shape and takes memory that no allocator sees; flash comes next in LibTorch's order.
  at::globalContext().setSDPUseCuDNN(false);
  const auto options = at::TensorOptions().device(device).dtype(dtype);
  const at::Tensor probe = at::empty({1, 1, 2, padded_head_size(head_size, dtype)}, options).set_requires_grad(true);
  const int64_t choice = at::_fused_sdp_choice(probe, probe, probe, {}, 0, true);
  if (choice == kChoiceFlash) return AttentionKernel::kFlash;
  if (choice == kChoiceMemoryEfficient) return AttentionKernel::kMemoryEfficient;
  throw UsageError("this GPU has no fused attention kernel for " + std::string(at::toString(dtype)) +
                       " with heads of " + std::to_string(head_size),
                   "set attn_implementation: math");
}

std::string kernel_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kMath:
      return "math attention";
    case AttentionKernel::kFlash:
      return "flash attention";
    case AttentionKernel::kMemoryEfficient:
      return "memory-efficient attention";
  }
  return "";
}

at::Tensor causal_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE,
                            AttentionKernel kernel) {
  return joined_heads(
      attend(queries_BSHE.transpose(1, 2), keys_BSKE.transpose(1, 2), values_BSKE.transpose(1, 2), kernel));
}

at::Tensor cached_attention(const at::Tensor& queries_BSHE, const at::Tensor& keys_BKCE, const at::Tensor& values_BKCE,
                            AttentionKernel kernel) {
  const int64_t rows = queries_BSHE.size(0), length = queries_BSHE.size(1), heads = queries_BSHE.size(2);
  const int64_t size = queries_BSHE.size(3), key_heads = keys_BKCE.size(1), repeats = heads / key_heads;
  const int64_t positions = keys_BKCE.size(2);
  if (length == positions) return joined_heads(attend(queries_BSHE.transpose(1, 2), keys_BKCE, values_BKCE, kernel));
  // Query heads of one group become queries of its key head; each sees the positions up to its own.
  const at::Tensor q_BKNE = queries_BSHE.transpose(1, 2).reshape({rows, key_heads, repeats * length, size});
  std::optional<at::Tensor> mask_NC;
  if (length > 1) {
    const at::Tensor hidden =
        at::ones({length, positions}, queries_BSHE.options().dtype(at::kBool)).triu_(positions - length + 1);
    const at::Tensor mask = at::zeros({length, positions}, queries_BSHE.options());
    mask_NC = mask.masked_fill_(hidden, -std::numeric_limits<double>::infinity()).repeat({repeats, 1});
  }
  const at::Tensor out_BKNE =
      kernel == AttentionKernel::kMath
          ? std::get<0>(at::_scaled_dot_product_attention_math(q_BKNE, keys_BKCE, values_BKCE, mask_NC))
          : at::scaled_dot_product_attention(q_BKNE, keys_BKCE, values_BKCE, mask_NC);
  return joined_heads(out_BKNE.reshape({rows, heads, length, size}));
}

}  // namespace fathom::ops
