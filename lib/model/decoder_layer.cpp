// One layer of the decoder, as transformers computes it for each family.
#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include "ops/fake_quantize.h"
#include "ops/rms_norm.h"
#include "ops/rotary.h"
#include "ops/swiglu.h"

namespace fathom::model {
namespace {

// Adds in place of the branch, which nothing keeps. Under autocast the stream is wider than the branch: on the CPU an
// addition of two types would cast inside the operator anyway.
at::Tensor add_to_stream(const at::Tensor& branch_TD, const at::Tensor& stream_TD) {
  if (branch_TD.scalar_type() == stream_TD.scalar_type()) return branch_TD.add_(stream_TD);
  if (stream_TD.is_cuda()) return stream_TD + branch_TD;
  return branch_TD.to(stream_TD.scalar_type()).add_(stream_TD);
}

// Each head by itself, or all of a token as one: as many numbers as the norm has weights.
at::Tensor normed(const at::Tensor& x_BSHE, const at::Tensor& weight, const LayerContext& context) {
  if (!weight.defined()) return x_BSHE;
  const at::Tensor rows = x_BSHE.view({-1, weight.size(0)});
  return ops::rms_norm(rows, weight, context.norm_eps, x_BSHE.scalar_type()).view(x_BSHE.sizes());
}

// What linear layers read of x.
at::Tensor as_input(const at::Tensor& x_TD, bool rounds) { return rounds ? ops::fake_quantize_tokens(x_TD) : x_TD; }

// The norm of the stream for the layers that read it, which have it computed again: the norm keeps the stream anyway.
ops::LinearInput normed_input(const at::Tensor& stream_TD, const at::Tensor& weight_D, const LayerContext& context,
                              const ops::ComputeScope& compute) {
  const auto norm = [eps = context.norm_eps, dtype = compute.dtype(), rounds = context.rounds_inputs](
                        const at::Tensor& x_TD, const at::Tensor& weight) {
    return as_input(ops::rms_norm(x_TD, weight, eps, dtype), rounds);
  };
  return {norm(stream_TD, weight_D),
          [norm, x_TD = stream_TD.detach(), weight = weight_D.detach()] { return norm(x_TD, weight); }};
}

// What is kept anyway, by who made it or as it is: rounded again where it is asked for.
ops::LinearInput plain_input(const at::Tensor& x_TD, const LayerContext& context) {
  if (!context.rounds_inputs) return ops::LinearInput(x_TD);
  return {as_input(x_TD, true), [x_TD = x_TD.detach()] { return as_input(x_TD, true); }};
}

// What reads the stream and adds to it: "self_attn" or "mlp", with its norm.
struct Branch {
  const char *module, *norm;
  const at::Tensor& norm_D;
};

ops::LinearInput branch_input(const DecoderLayer& layer, const Branch& branch, const at::Tensor& stream_TD,
                              const LayerContext& context, const ops::ComputeScope& compute) {
  layer.names.forward(layer.spec.norms_before() ? branch.norm : branch.module);
  if (layer.spec.norms_before()) return normed_input(stream_TD, branch.norm_D, context, compute);
  return plain_input(stream_TD.to(compute.dtype()), context);
}

at::Tensor add_branch(const DecoderLayer& layer, const Branch& branch, const at::Tensor& added_TD,
                      const at::Tensor& stream_TD, const LayerContext& context) {
  if (layer.spec.norms_before()) return add_to_stream(added_TD, stream_TD);
  layer.names.forward(branch.norm);
  return add_to_stream(ops::rms_norm(added_TD, branch.norm_D, context.norm_eps, added_TD.scalar_type()), stream_TD);
}

at::Tensor attention(const DecoderLayer& layer, const ops::LinearInput& x_TD, const LayerContext& context,
                     const ops::ComputeScope& compute, CachedLayer* cache) {
  const int64_t tokens = x_TD.tensor().size(0), length = tokens / context.rows;
  const arch::Attention& spec = layer.spec.attention;
  auto heads_of = [&](const ops::Linear& projection, const char* name, int64_t heads) {
    layer.names.forward(name);
    return ops::linear(x_TD, projection, compute, context.training).view({context.rows, length, heads, spec.head_dim});
  };
  auto turned = [&](const at::Tensor& x_BSHE, const at::Tensor& norm) {
    return ops::rotate(normed(x_BSHE, norm, context), context.cos_SE2, context.sin_SE2);
  };
  const at::Tensor q_BSHE = turned(heads_of(layer.q, "self_attn.q_proj", spec.heads), layer.query_norm);
  const at::Tensor k_BSKE = turned(heads_of(layer.k, "self_attn.k_proj", spec.key_value_heads), layer.key_norm);
  const at::Tensor v_BSKE = heads_of(layer.v, "self_attn.v_proj", spec.key_value_heads);
  layer.names.forward("self_attn");
  if (cache == nullptr) {
    return ops::causal_attention(q_BSHE, k_BSKE, v_BSKE, context.kernel, context.documents.get(), spec.window)
        .view({tokens, spec.queries()});
  }
  cache->keys_BKSE.narrow(2, cache->length, length).copy_(k_BSKE.transpose(1, 2));
  cache->values_BKSE.narrow(2, cache->length, length).copy_(v_BSKE.transpose(1, 2));
  const int64_t positions = cache->length + length;
  return ops::cached_attention(q_BSHE, cache->keys_BKSE.narrow(2, 0, positions),
                               cache->values_BKSE.narrow(2, 0, positions), context.kernel, spec.window)
      .view({tokens, spec.queries()});
}

at::Tensor feed_forward(const DecoderLayer& layer, const ops::LinearInput& x_TD, const LayerContext& context,
                        const ops::ComputeScope& compute) {
  layer.names.forward("mlp.gate_proj");
  const at::Tensor gate_TF = ops::linear(x_TD, layer.gate, compute, context.training);
  layer.names.forward("mlp.up_proj");
  const at::Tensor up_TF = ops::linear(x_TD, layer.up, compute, context.training);
  layer.names.forward("mlp.act_fn");
  const auto multiply = [rounds = context.rounds_inputs](const at::Tensor& gate, const at::Tensor& up) {
    return as_input(ops::swiglu(gate, up), rounds);
  };
  const ops::LinearInput gated_TF(multiply(gate_TF, up_TF), [multiply, gate = gate_TF.detach(), up = up_TF.detach()] {
    return multiply(gate, up);  // of swiglu, which keeps both
  });
  layer.names.backward(gated_TF.tensor(), "mlp");
  layer.names.forward("mlp.down_proj");
  return ops::linear(gated_TF, layer.down, compute, context.training);
}

}  // namespace

at::Tensor run_layer(const DecoderLayer& layer, const at::Tensor& stream_TD, const LayerContext& context,
                     CachedLayer* cache) {
  const ops::ComputeScope compute(stream_TD.device(), layer.attention_norm_D.scalar_type());
  const Branch attends{"self_attn", layer.spec.norm_names().attention, layer.attention_norm_D};
  const Branch feeds{"mlp", layer.spec.norm_names().feed_forward, layer.feed_forward_norm_D};
  at::Tensor middle_TD;
  {
    const ops::LinearInput x_TD = branch_input(layer, attends, stream_TD, context, compute);
    const ops::LinearInput attended_TD = plain_input(attention(layer, x_TD, context, compute, cache), context);
    layer.names.backward(attended_TD.tensor(), "self_attn");
    layer.names.forward("self_attn.o_proj");
    middle_TD =
        add_branch(layer, attends, ops::linear(attended_TD, layer.o, compute, context.training), stream_TD, context);
    layer.names.backward(middle_TD, "self_attn.o_proj");
  }
  const ops::LinearInput x_TD = branch_input(layer, feeds, middle_TD, context, compute);
  at::Tensor output_TD = add_branch(layer, feeds, feed_forward(layer, x_TD, context, compute), middle_TD, context);
  layer.names.backward(output_TD, "mlp.down_proj");
  return output_TD;
}

}  // namespace fathom::model
