// Divides the heads among the threads, gives each its scratch memory and adds up what they made of one head.
#include "ops/attention/amx_attention.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numbers>
#include <optional>

#include "cpu/amx_heads.h"
#include "ops/attention/attention_pairs.h"
#include "ops/attention/sinks.h"
#include "ops/given.h"
#include "ops/linear/amx_threads.h"

namespace fathom::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Who computes what; the same on the phantom device.
struct Work {
  Work(const std::vector<int64_t>& lengths, const at::Tensor& q_THE, int64_t key_heads)
      : longest(*std::max_element(lengths.begin(), lengths.end())), head_size(q_THE.size(2)) {
    at::init_num_threads();  // LibTorch's threads are a property of each thread
    divided = cpu::attention_shares(lengths, key_heads, at::get_num_threads());
  }
  int64_t longest, head_size;
  cpu::AttentionShares divided;
};

at::Tensor scratch_of(int64_t bytes, const at::Tensor& like) {
  return at::empty({bytes}, like.options().dtype(at::kByte));
}

at::Tensor with_dense_heads(const at::Tensor& x_THE) { return x_THE.stride(2) == 1 ? x_THE : x_THE.contiguous(); }

#ifdef FATHOM_AMX

cpu::amx::Heads heads_of(const at::Tensor& x_THE) {
  return {static_cast<uint16_t*>(x_THE.data_ptr()), x_THE.stride(0), x_THE.stride(1)};
}

cpu::amx::Attention attention_of(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                                 const at::Tensor& out_THE, const at::Tensor& logsumexp_TH) {
  cpu::amx::Attention attention;
  attention.heads = q_THE.size(1);
  attention.key_heads = k_TKE.size(1);
  attention.head_size = q_THE.size(2);
  attention.queries = heads_of(q_THE);
  attention.keys = heads_of(k_TKE);
  attention.values = heads_of(v_TKE);
  attention.out = heads_of(out_THE);
  attention.logsumexp_TH = logsumexp_TH.data_ptr<float>();
  return attention;
}

void run_forward(const cpu::amx::Attention& attention, const Work& work, const at::Tensor& memory) {
  const auto shares = static_cast<int64_t>(work.divided.shares.size());
  cpu::amx::Scratch scratch(memory.data_ptr());
  std::vector<cpu::amx::ForwardScratch> scratches;
  for (int64_t i = 0; i < shares; ++i) scratches.emplace_back(scratch, work.longest, work.head_size);
  at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (const cpu::AttentionStretch& stretch : work.divided.shares[i])
        cpu::amx::attend(attention, stretch, scratches[i]);
    }
  });
}

// Heads of documents that several threads have stretches of, in order.
std::vector<std::vector<cpu::AttentionStretch>> cut_heads(const cpu::AttentionShares& divided) {
  std::vector<std::vector<cpu::AttentionStretch>> cut;
  for (const std::vector<cpu::AttentionStretch>& share : divided.shares) {
    for (const cpu::AttentionStretch& stretch : share) {
      if (stretch.is_whole()) continue;
      if (stretch.first_query == 0) cut.emplace_back();
      cut.back().push_back(stretch);
    }
  }
  return cut;
}

void run_backward(const cpu::amx::Attention& attention, const Work& work, const at::Tensor& memory) {
  const auto shares = static_cast<int64_t>(work.divided.shares.size());
  cpu::amx::Scratch scratch(memory.data_ptr());
  std::vector<cpu::amx::BackwardScratch> scratches;
  std::vector<cpu::amx::KeySums> sums;
  for (int64_t i = 0; i < shares; ++i) scratches.emplace_back(scratch, work.longest, work.head_size);
  for (int64_t i = 0; i < work.divided.sums; ++i) sums.emplace_back(scratch, work.longest, work.head_size);
  at::parallel_for(0, shares, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (const cpu::AttentionStretch& stretch : work.divided.shares[i]) {
        cpu::amx::attend_backward(attention, stretch, scratches[i], sums[stretch.sums]);
        if (stretch.is_whole()) cpu::amx::write_sums(attention, stretch, sums[stretch.sums]);
      }
    }
  });
  const std::vector<std::vector<cpu::AttentionStretch>> cut = cut_heads(work.divided);
  at::parallel_for(0, static_cast<int64_t>(cut.size()), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const cpu::AttentionStretch& end = cut[i].back();
      for (const cpu::AttentionStretch& earlier : cut[i]) {
        if (earlier != end) cpu::amx::add_sums(attention, earlier, sums[earlier.sums], sums[end.sums]);
      }
      cpu::amx::write_sums(attention, end, sums[end.sums]);
    }
  });
}

#endif

struct AmxAttention : torch::autograd::Function<AmxAttention> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& q_in_THE, const at::Tensor& k_in_TKE,
                            const at::Tensor& v_in_TKE, const std::optional<at::Tensor>& sinks_H,
                            const std::vector<int64_t>& lengths) {
    const at::Tensor q_THE = with_dense_heads(q_in_THE), k_TKE = with_dense_heads(k_in_TKE),
                     v_TKE = with_dense_heads(v_in_TKE);
    const AttentionPairs pairs(q_THE, lengths, 0, AttentionPairs::kForward);
    const Work work(lengths, q_THE, k_TKE.size(1));
    at::Tensor out_THE = at::empty(q_THE.sizes(), q_THE.options());
    at::Tensor logsumexp_TH = at::empty({q_THE.size(0), q_THE.size(1)}, q_THE.options().dtype(at::kFloat));
    const at::Tensor memory =
        scratch_of(cpu::amx::forward_scratch_bytes(work.divided, work.longest, work.head_size), q_THE);
#ifdef FATHOM_AMX
    if (q_THE.is_cpu()) run_forward(attention_of(q_THE, k_TKE, v_TKE, out_THE, logsumexp_TH), work, memory);
#endif
    if (sinks_H) {
      logsumexp_TH.mul_(std::numbers::ln2);
      add_sinks(out_THE, logsumexp_TH, *sinks_H);
      logsumexp_TH.mul_(std::numbers::log2e);
    }
    context->save_for_backward({q_THE, k_TKE, v_TKE, out_THE, logsumexp_TH, sinks_H.value_or(at::Tensor())});
    context->saved_data["lengths"] = lengths;
    return out_THE;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &q_THE = saved[0], &k_TKE = saved[1], &v_TKE = saved[2], &out_THE = saved[3];
    const at::Tensor grad_out_THE = with_dense_heads(gradients[0]);
    const std::vector<int64_t> lengths = context->saved_data["lengths"].toIntVector();
    const AttentionPairs pairs(q_THE, lengths, 0, AttentionPairs::kBackward);
    const Work work(lengths, q_THE, k_TKE.size(1));
    at::Tensor grad_sinks_H;
    if (saved[5].defined() && context->needs_input_grad(3)) {
      grad_sinks_H = gradient_of_sinks(grad_out_THE, out_THE, saved[4] * std::numbers::ln2, saved[5]);
    }
    at::Tensor grad_q_THE = at::empty(q_THE.sizes(), q_THE.options());
    at::Tensor grad_k_TKE = at::empty(k_TKE.sizes(), k_TKE.options());
    at::Tensor grad_v_TKE = at::empty(v_TKE.sizes(), v_TKE.options());
    const at::Tensor memory =
        scratch_of(cpu::amx::backward_scratch_bytes(work.divided, work.longest, work.head_size), q_THE);
#ifdef FATHOM_AMX
    if (q_THE.is_cpu()) {
      cpu::amx::Attention attention = attention_of(q_THE, k_TKE, v_TKE, out_THE, saved[4]);
      attention.grad_out = heads_of(grad_out_THE);
      attention.grad_queries = heads_of(grad_q_THE);
      attention.grad_keys = heads_of(grad_k_TKE);
      attention.grad_values = heads_of(grad_v_TKE);
      run_backward(attention, work, memory);
    }
#endif
    return {grad_q_THE, grad_k_TKE, grad_v_TKE, grad_sinks_H, at::Tensor()};
  }
};

}  // namespace

bool has_amx_attention(at::Device device, at::ScalarType type) {
#ifdef FATHOM_AMX
  return (device.is_cpu() || device.is_privateuseone()) && type == at::kBFloat16 && amx::has_tiles();
#else
  (void)device, (void)type;
  return false;
#endif
}

at::Tensor amx_attention(const at::Tensor& q_THE, const at::Tensor& k_TKE, const at::Tensor& v_TKE,
                         const std::vector<int64_t>& document_lengths, const at::Tensor& sinks_H) {
  return AmxAttention::apply(q_THE, k_TKE, v_TKE, given(sinks_H), document_lengths);
}

}  // namespace fathom::ops
