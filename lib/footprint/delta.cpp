// On a CPU by kernels, on a GPU by ATen's operators over all chunks.
#include "footprint/delta.h"

namespace fathom::footprint {
namespace {

constexpr const char *kRule = "the gated delta rule keeps what it reads (Yang et al. 2024, arXiv 2412.06464)",
                     *kHeads = "states at the borders of chunks, made again; lib/ops/delta/delta_heads.cpp",
                     *kOperators = "values of all chunks in FP32; lib/ops/delta/delta_operators.cpp";

}  // namespace

Footprint delta_footprint(const StepSizes& step, const DeltaSizes& sizes) {
  const int64_t heads = sizes.value_heads, chunk = kDeltaChunk;
  const auto of_tokens = [&](const char* what, const char* source, int64_t width) -> Bytes {
    return {what, source, step.wide(width, step.compute_bytes)};
  };
  const auto states = [&](const char* source, int64_t count) -> Bytes {
    return {"states of value heads",
            source,
            {{count, "of"},
             {sizes.chunks, "chunks"},
             {heads, "heads"},
             {sizes.key_dim, ""},
             {sizes.value_dim, ""},
             {4, "bytes"}}};
  };
  const auto of_chunks = [&](const char* what, int64_t width) -> Bytes {
    return {what, kOperators, {{sizes.chunks, "chunks"}, {chunk, "tokens"}, {width, ""}, {4, "bytes"}}};
  };
  Footprint footprint;
  footprint.kept = {of_tokens("queries, keys and values, before their convolution", kRule, sizes.mixed()),
                    of_tokens("strengths and decays", kRule, 2 * heads)};
  footprint.forward = {footprint.kept};
  footprint.forward[0].push_back(of_tokens("queries, keys and values, behind it", kRule, sizes.mixed()));
  footprint.backward = {{of_tokens("gradient of answers", kGradientSource, sizes.values()),
                         of_tokens("queries, keys and values, behind their convolution", kRule, sizes.mixed())}};
  if (!step.cuda) {
    footprint.forward[0].push_back(of_tokens("answers", kRule, sizes.values()));
    footprint.backward[0].push_back(of_tokens("gradients of strengths and decays", kGradientSource, 2 * heads));
    footprint.backward[0].push_back(states(kHeads, 1));
  } else {
    const int64_t wide_keys = heads * sizes.key_dim;
    const Tensors made = {of_chunks("queries and keys, of unit length", 2 * sizes.keys()),
                          of_chunks("of each value head four of queries and keys", 4 * wide_keys),
                          of_chunks("values, and what is written", 2 * sizes.values()),
                          of_chunks("strengths and decays", 6 * heads),
                          of_chunks("pairs of tokens", 4 * heads * chunk)};
    for (Tensors* moment : {&footprint.forward[0], &footprint.backward[0]}) {
      moment->insert(moment->end(), made.begin(), made.end());
    }
    footprint.forward[0].push_back(of_chunks("answers", 2 * sizes.values()));
    footprint.forward[0].push_back(states(kOperators, 1));
    footprint.backward[0].push_back(states(kOperators, 2));
    footprint.backward[0].push_back(of_chunks("gradients of answers, values and what is written", 3 * sizes.values()));
    footprint.backward[0].push_back(of_chunks("gradients of queries and keys", 4 * wide_keys));
    footprint.backward[0].push_back(of_chunks("gradients of pairs", 2 * heads * chunk));
  }
  footprint = elementwise(std::move(footprint));
  const auto flops = [&](int64_t of_states, int64_t of_keys, int64_t of_values) {
    const int64_t each =
        of_states * sizes.key_dim * sizes.value_dim + chunk * (of_keys * sizes.key_dim + of_values * sizes.value_dim);
    return value_of({{2, ""}, {step.tokens, ""}, {heads, ""}, {each, ""}});
  };
  footprint.forward_work.flops = flops(3, 2, 2);
  footprint.backward_work.flops = flops(9, 8, 5);
  return footprint;
}

}  // namespace fathom::footprint
