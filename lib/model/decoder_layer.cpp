// One layer, as transformers computes it for each family.
#include "model/decoder_layer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/activation.h"
#include "ops/dropout.h"
#include "ops/fake_quantize.h"
#include "ops/rotary.h"
#include "ops/shared_input.h"
#include "ops/split_columns.h"

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
  return ops::norm(rows, {weight}, context.norm, x_BSHE.scalar_type()).view(x_BSHE.sizes());
}

at::Tensor detached(const at::Tensor& x) { return x.defined() ? x.detach() : x; }

// What linear layers read of x.
at::Tensor as_input(const at::Tensor& x_TD, bool rounds) { return rounds ? ops::fake_quantize_tokens(x_TD) : x_TD; }

// The norm of the stream for the layers that read it, which have it computed again: the norm keeps the stream anyway.
// The stream becomes what the branch is added to.
ops::LinearInput normed_input(at::Tensor& stream_TD, const ops::NormWeights& weights, const LayerContext& context,
                              const ops::ComputeScope& compute) {
  const auto again = [settings = context.norm, dtype = compute.dtype(), rounds = context.rounds_inputs,
                      x_TD = stream_TD.detach(),
                      its = ops::NormWeights{detached(weights.weight_D), detached(weights.bias_D)}] {
    return as_input(ops::norm(x_TD, its, settings, dtype), rounds);
  };
  ops::NormedStream both = ops::norm_of_stream(stream_TD, weights, context.norm, compute.dtype());
  stream_TD = std::move(both.stream_TD);
  return {as_input(both.normed_TD, context.rounds_inputs), again};
}

// What is kept anyway, by who made it or as it is: rounded again where it is asked for.
ops::LinearInput plain_input(const at::Tensor& x_TD, const LayerContext& context) {
  if (!context.rounds_inputs) return ops::LinearInput(x_TD);
  return {as_input(x_TD, true), [x_TD = x_TD.detach()] { return as_input(x_TD, true); }};
}

// What reads the stream and adds to it, with its norms.
struct Branch {
  const char *module, *norm_before, *norm_after;
  const BranchNorms& norms;
};

ops::LinearInput branch_input(const DecoderLayer& layer, const Branch& branch, at::Tensor& stream_TD,
                              const LayerContext& context, const ops::ComputeScope& compute) {
  const bool normed = branch.norms.before.defined();
  layer.names.forward(normed ? branch.norm_before : branch.module);
  if (normed) return normed_input(stream_TD, branch.norms.before, context, compute);
  return plain_input(stream_TD.to(compute.dtype()), context);
}

at::Tensor add_branch(const DecoderLayer& layer, const Branch& branch, const at::Tensor& made_TD,
                      const at::Tensor& stream_TD, const LayerContext& context) {
  at::Tensor added_TD = ops::dropout(made_TD, context.dropout);
  if (branch.norms.after.defined()) {
    layer.names.forward(branch.norm_after);
    added_TD = ops::norm(added_TD, branch.norms.after, context.norm, added_TD.scalar_type());
  }
  if (layer.spec.added_scale != 1) added_TD.mul_(layer.spec.added_scale);
  return add_to_stream(added_TD, stream_TD);
}

struct QueriesKeysValues {
  at::Tensor q_BSHE, k_BSKE, v_BSKE;
};

// The projections of one attention, by their inputs.
class Heads {
 public:
  Heads(const DecoderLayer& layer, const AttentionWeights& weights, const LayerContext& context,
        const ops::ComputeScope& compute)
      : layer_(layer),
        weights_(weights),
        context_(context),
        compute_(compute),
        turns_(layer.rotary ? &context.turns.at(*layer.rotary) : nullptr) {}

  QueriesKeysValues all(const ops::LinearInput& input) const {
    if (!weights_.fused) {
      const ops::LinearInput x_TD = shared(input, {&weights_.q, &weights_.k, &weights_.v});
      at::Tensor q_BSHE = queries(x_TD), k_BSKE = keys(x_TD);
      return {std::move(q_BSHE), std::move(k_BSKE), values(x_TD)};
    }
    const std::vector<at::Tensor> parts = ops::split_columns(project(input, *weights_.fused, weights_.names.fused),
                                                             {spec().queries(), spec().keys(), spec().keys()});
    return {turned_queries(heads_of(parts[0])), turned_keys(heads_of(parts[1])), heads_of(parts[2])};
  }
  std::pair<at::Tensor, at::Tensor> keys_and_values(const ops::LinearInput& input) const {
    const ops::LinearInput x_TD = shared(input, {&weights_.k, &weights_.v});
    at::Tensor k_BSKE = keys(x_TD);
    return {std::move(k_BSKE), values(x_TD)};
  }
  at::Tensor queries(const ops::LinearInput& x_TD) const {
    return turned_queries(heads_of(project(x_TD, weights_.q, weights_.names.query)));
  }

 private:
  const arch::Attention& spec() const { return layer_.spec.attention; }
  ops::LinearInput shared(const ops::LinearInput& input, const std::vector<const ops::Linear*>& projections) const {
    return ops::shared(input, projections, compute_, context_.training);
  }
  at::Tensor keys(const ops::LinearInput& x_TD) const {
    return turned_keys(heads_of(project(x_TD, weights_.k, weights_.names.key)));
  }
  at::Tensor values(const ops::LinearInput& x_TD) const {
    return heads_of(project(x_TD, weights_.v, weights_.names.value));
  }
  at::Tensor project(const ops::LinearInput& x_TD, const ops::Linear& projection, const char* name) const {
    layer_.names.forward(name);
    return ops::linear(x_TD, projection, compute_, context_.training);
  }
  at::Tensor heads_of(const at::Tensor& x_TN) const {
    return x_TN.view({context_.rows, x_TN.size(0) / context_.rows, -1, spec().head_dim});
  }
  at::Tensor turned_queries(const at::Tensor& x_BSHE) const {
    const at::Tensor normed_BSHE = normed(x_BSHE, weights_.query_norm, context_);
    return turns_ != nullptr ? ops::rotate(normed_BSHE, turns_->queries, turns_->interleaved) : normed_BSHE;
  }
  at::Tensor turned_keys(const at::Tensor& x_BSKE) const {
    const at::Tensor normed_BSKE = normed(x_BSKE, weights_.key_norm, context_);
    return turns_ != nullptr ? ops::rotate(normed_BSKE, turns_->keys, turns_->interleaved) : normed_BSKE;
  }

  const DecoderLayer& layer_;
  const AttentionWeights& weights_;
  const LayerContext& context_;
  const ops::ComputeScope& compute_;
  const ops::Turns* turns_;  // null: heads are not turned
};

// How self-attention weighs its pairs where it makes their scores.
ops::Scores scores_of(const arch::Attention& spec, const at::Tensor& by_distance_HN, const LayerContext& context) {
  ops::Scores scores{by_distance_HN, context.hidden_BS};
  if (!by_distance_HN.defined()) {
    scores.by_distance_HN = spec.window > 0 ? context.causal_in_window_HN : context.causal_HN;
  }
  if (spec.scaled) scores.scale = 1 / std::sqrt(static_cast<double>(spec.head_dim));
  scores.softcap = spec.softcap;
  return scores;
}

// What a branch reads, with all that was made of it for its linear layers: the last of them lets go of it.
using BranchInput = std::optional<ops::LinearInput>;

// [T, H * E]
at::Tensor attention(const DecoderLayer& layer, BranchInput& x_TD, const at::Tensor& by_distance_HN,
                     const LayerContext& context, const ops::ComputeScope& compute, CachedLayer* cache) {
  const int64_t tokens = x_TD->tensor().size(0), length = tokens / context.rows;
  const arch::Attention& spec = layer.spec.attention;
  const QueriesKeysValues heads = Heads(layer, layer.attention, context, compute).all(*x_TD);
  if (!layer.spec.parallel) x_TD.reset();  // else the feed-forward part reads it too
  const at::Tensor &q_BSHE = heads.q_BSHE, &k_BSKE = heads.k_BSKE, &v_BSKE = heads.v_BSKE;
  layer.names.forward(layer.attention.names.module);
  const auto by_scores = [&](const at::Tensor& keys_BSKE, const at::Tensor& values_BSKE) {
    return ops::biased_attention(q_BSHE, keys_BSKE, values_BSKE, scores_of(spec, by_distance_HN, context),
                                 context.dropout);
  };
  at::Tensor attended_BSD;
  if (cache != nullptr) {
    cache->keys_BKSE.narrow(2, cache->length, length).copy_(k_BSKE.transpose(1, 2));
    cache->values_BKSE.narrow(2, cache->length, length).copy_(v_BSKE.transpose(1, 2));
    const int64_t positions = cache->length + length;
    const at::Tensor keys_BKSE = cache->keys_BKSE.narrow(2, 0, positions);
    const at::Tensor values_BKSE = cache->values_BKSE.narrow(2, 0, positions);
    attended_BSD = context.by_scores
                       ? by_scores(keys_BKSE.transpose(1, 2), values_BKSE.transpose(1, 2))
                       : ops::cached_attention(q_BSHE, keys_BKSE, values_BKSE, context.kernel, spec.window);
  } else if (context.by_scores) {
    attended_BSD = by_scores(k_BSKE, v_BSKE);
  } else {
    attended_BSD = ops::causal_attention(q_BSHE, k_BSKE, v_BSKE, context.kernel, context.documents.get(), spec.window);
  }
  return attended_BSD.view({tokens, spec.queries()});
}

// The same with the keys and values of source_TD, or those that the cache has of it.
at::Tensor cross_attention(const DecoderLayer& layer, BranchInput& x_TD, const at::Tensor& source_TD,
                           const LayerContext& context, const ops::ComputeScope& compute, CachedLayer* cache) {
  const int64_t tokens = x_TD->tensor().size(0);
  const Heads heads(layer, *layer.cross, context, compute);
  const at::Tensor q_BTHE = heads.queries(*x_TD);
  x_TD.reset();
  at::Tensor k_BSHE, v_BSHE;
  if (source_TD.defined()) {
    const ops::LinearInput of_source = plain_input(source_TD, context);
    std::tie(k_BSHE, v_BSHE) = heads.keys_and_values(of_source);
    if (cache != nullptr) std::tie(*cache->source_keys_BSKE, *cache->source_values_BSKE) = std::tie(k_BSHE, v_BSHE);
  } else {
    std::tie(k_BSHE, v_BSHE) = std::tie(*cache->source_keys_BSKE, *cache->source_values_BSKE);
  }
  layer.names.forward(layer.cross->names.module);
  return ops::biased_attention(q_BTHE, k_BSHE, v_BSHE, {{}, context.source_hidden_BS}, context.dropout)
      .view({tokens, layer.spec.attention.queries()});
}

struct GateAndUp {
  at::Tensor gate_TF, up_TF;  // gate_TF: undefined where the layer has none
};

GateAndUp gate_and_up(const DecoderLayer& layer, const ops::LinearInput& input, const LayerContext& context,
                      const ops::ComputeScope& compute) {
  const ops::LinearInput x_TD =
      layer.gate ? ops::shared(input, {&*layer.gate, &layer.up}, compute, context.training) : input;
  const auto project = [&](const ops::Linear& projection, const char* name) {
    layer.names.forward(name);
    return ops::linear(x_TD, projection, compute, context.training);
  };
  const arch::FeedForwardNames& names = layer.feed_forward_names;
  if (layer.fused) {
    const int64_t width = layer.spec.feed_forward.width;
    std::vector<at::Tensor> parts = ops::split_columns(project(*layer.fused, names.fused), {width, width});
    return {std::move(parts[0]), std::move(parts[1])};
  }
  at::Tensor gate_TF = layer.gate ? project(*layer.gate, names.gate) : at::Tensor();
  return {std::move(gate_TF), project(layer.up, names.up)};
}

// What the feed-forward part makes of its width, with how to make it again from what is kept.
ops::LinearInput activated(const DecoderLayer& layer, BranchInput& x_TD, const LayerContext& context,
                           const ops::ComputeScope& compute) {
  const Activation activation = layer.spec.feed_forward.activation;
  const auto [gate_TF, up_TF] = gate_and_up(layer, *x_TD, context, compute);
  x_TD.reset();
  layer.names.forward(layer.feed_forward_names.activation);
  const auto make = [activation, rounds = context.rounds_inputs](const at::Tensor& gate, const at::Tensor& up) {
    return as_input(gate.defined() ? ops::gated(activation, gate, up) : ops::activated(activation, up), rounds);
  };
  if (gate_TF.defined() && !context.rounds_inputs && context.inner_dropout == 0) {
    return ops::gated_input(activation, gate_TF, up_TF);
  }
  if (context.inner_dropout > 0) return ops::LinearInput(ops::dropout(make(gate_TF, up_TF), context.inner_dropout));
  return {make(gate_TF, up_TF), [make, gate = detached(gate_TF), up = detached(up_TF)] { return make(gate, up); }};
}

at::Tensor feed_forward(const DecoderLayer& layer, BranchInput& x_TD, const LayerContext& context,
                        const ops::ComputeScope& compute) {
  if (layer.experts)
    return run_experts(*layer.experts, *x_TD, layer.feed_forward_names, layer.names, context.balance, compute);
  const ops::LinearInput activated_TF = activated(layer, x_TD, context, compute);
  layer.names.backward(activated_TF.tensor(), layer.feed_forward_names.module);
  layer.names.forward(layer.feed_forward_names.down);
  return ops::linear(activated_TF, layer.down, compute, context.training);
}

Branch branch_of(const AttentionWeights& weights) {
  return {weights.names.module, weights.names.norm_before, weights.names.norm_after, weights.norms};
}

// Adds what an attention, be it to the stream or to a source, made of the stream: [T, H * E].
at::Tensor add_attention(const DecoderLayer& layer, const AttentionWeights& weights, const at::Tensor& made_TD,
                         const at::Tensor& stream_TD, const LayerContext& context, const ops::ComputeScope& compute) {
  const arch::AttentionNames& names = weights.names;
  const Branch branch = branch_of(weights);
  const ops::LinearInput attended_TD = plain_input(made_TD, context);
  layer.names.backward(attended_TD.tensor(), names.module);
  layer.names.forward(names.output);
  at::Tensor sum_TD =
      add_branch(layer, branch, ops::linear(attended_TD, weights.o, compute, context.training), stream_TD, context);
  layer.names.backward(sum_TD, names.output);
  return sum_TD;
}

}  // namespace

at::Tensor run_layer(const DecoderLayer& layer, const LayerInputs& inputs, const LayerContext& context,
                     CachedLayer* cache) {
  const BranchNorms& norms = layer.attention.norms;
  const at::Tensor& norm_D = norms.before.defined() ? norms.before.weight_D : norms.after.weight_D;
  const ops::ComputeScope compute(inputs.stream_TD.device(), norm_D.scalar_type());
  at::Tensor stream_TD = inputs.stream_TD;
  const auto read = [&](const Branch& branch) {
    return BranchInput(branch_input(layer, branch, stream_TD, context, compute));
  };
  BranchInput x_TD = read(branch_of(layer.attention));
  stream_TD =
      add_attention(layer, layer.attention, attention(layer, x_TD, inputs.by_distance_HN, context, compute, cache),
                    stream_TD, context, compute);
  if (layer.cross) {
    x_TD = read(branch_of(*layer.cross));
    stream_TD =
        add_attention(layer, *layer.cross, cross_attention(layer, x_TD, inputs.source_TD, context, compute, cache),
                      stream_TD, context, compute);
  }
  const arch::FeedForwardNames& names = layer.feed_forward_names;
  const Branch feeds{names.module, names.norm_before, names.norm_after, layer.feed_forward_norms};
  if (!x_TD) x_TD = read(feeds);
  at::Tensor output_TD = add_branch(layer, feeds, feed_forward(layer, x_TD, context, compute), stream_TD, context);
  layer.names.backward(output_TD, layer.experts ? names.experts : names.down);
  return output_TD;
}

}  // namespace fathom::model
