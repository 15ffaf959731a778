// On a CPU by kernels, on a GPU by ATen's operators over all chunks.
#include "footprint/delta.h"

#include <initializer_list>

namespace fathom::footprint {
namespace {

constexpr const char *kRule = "the gated delta rule keeps what it reads (Yang et al. 2024, arXiv 2412.06464)",
                     *kHeads = "states at the borders of chunks, made again; lib/ops/delta/delta_heads.cpp",
                     *kOperators = "values of all chunks in FP32; lib/ops/delta/delta_operators.cpp";

Bytes states(const DeltaSizes& sizes, const char* source, int64_t count) {
  return {"states of value heads",
          source,
          {{count, "states"}, {sizes.value_heads, "heads"}, {sizes.key_dim, ""}, {sizes.value_dim, ""}, {4, "bytes"}}};
}

// What operators make of all chunks of a batch, of a row of which the last chunk may be filled up.
class OfChunks {
 public:
  OfChunks(const StepSizes& step, const DeltaSizes& sizes) : step_(step), sizes_(sizes) {}

  void add_to(Footprint& footprint) const {
    const Tensors made = before_states();
    const auto moment = [&](Tensors& to, std::initializer_list<Bytes> more) {
      to.insert(to.end(), made.begin(), made.end());
      to.insert(to.end(), more);
    };
    const Bytes borders = states(sizes_, kOperators, sizes_.chunks + sizes_.texts);
    moment(footprint.forward.front(), {borders,
                                       each("answers", (sizes_.ragged ? 4 : 3) * sizes_.values()),
                                       {"answers", kOperators, step_.wide(sizes_.values(), step_.compute_bytes)}});

    // Pairs of tokens, then what they and states give to queries and keys, then the rows of the batch.
    const Tensors read = footprint.backward.front();
    const Bytes both = states(sizes_, kOperators, 2 * sizes_.chunks + sizes_.texts);
    const int64_t values = sizes_.values(), heads = sizes_.value_heads;
    const Bytes of_values = each("gradients of answers, values and what is written", 3 * values);
    const Bytes of_keys = each("gradients of queries and keys", 3 * wide_keys());
    const Bytes of_pairs = each("gradients of pairs", 2 * heads * kDeltaChunk);
    footprint.backward.assign(4, read);
    moment(footprint.backward[0],
           {both, each("gradients of answers and what is written", 2 * values), each("sums of gradients", heads),
            each("gradients of pairs, and their products", 4 * heads * kDeltaChunk)});
    moment(footprint.backward[1], {both, of_values, of_keys, of_pairs, each("sums of gradients", 2 * heads),
                                   each("products of keys and gradients", wide_keys())});
    moment(footprint.backward[2], {both, of_values, of_keys, of_pairs, each("sums of gradients", 4 * heads),
                                   states(sizes_, kOperators, sizes_.chunks)});
    moment(footprint.backward[3], {both,
                                   of_values,
                                   of_keys,
                                   of_pairs,
                                   each("sums of gradients", 5 * heads),
                                   of_rows(),
                                   {"gradients of decays", kOperators, step_.wide(heads, 4)}});
  }

 private:
  int64_t wide_keys() const { return sizes_.value_heads * sizes_.key_dim; }
  Bytes each(const char* what, int64_t width) const {
    return {what, kOperators, {{sizes_.chunks, "chunks"}, {kDeltaChunk, "tokens"}, {width, ""}, {4, "bytes"}}};
  }
  // The gradients of what the convolution made, beside each other and as one; or those of keys while they are made.
  Bytes of_rows() const {
    const int64_t keys = sizes_.keys(), of_keys = (sizes_.ragged ? 6 : 5) * keys, all = 2 * sizes_.mixed();
    if (of_keys > all) return each("gradients of queries and keys, by key heads", of_keys);
    return {"gradients of queries, keys and values, and as one", kOperators, step_.wide(all, 4)};
  }
  // Keys of value heads are those of key heads where there are as many.
  Tensors before_states() const {
    const bool grouped = sizes_.value_heads != sizes_.key_heads;
    return {each("queries and keys, of unit length", 2 * sizes_.keys() + 2 * sizes_.key_heads),
            each("queries and keys of each value head", (grouped ? 4 : 3) * wide_keys()),
            each("values, and what is written", 2 * sizes_.values()),
            each("strengths and decays", 4 * sizes_.value_heads),
            each("pairs of tokens", 4 * sizes_.value_heads * kDeltaChunk),
            {"decays", kOperators, step_.wide(sizes_.value_heads, 4)}};
  }

  const StepSizes& step_;
  const DeltaSizes& sizes_;
};

}  // namespace

Footprint delta_footprint(const StepSizes& step, const DeltaSizes& sizes) {
  const int64_t heads = sizes.value_heads, chunk = kDeltaChunk;
  const auto of_tokens = [&](const char* what, const char* source, int64_t width) -> Bytes {
    return {what, source, step.wide(width, step.compute_bytes)};
  };
  Footprint footprint;
  footprint.kept = {of_tokens("queries, keys and values, before their convolution", kRule, sizes.mixed()),
                    of_tokens("strengths and decays", kRule, 2 * heads)};
  footprint.forward = {footprint.kept};
  footprint.forward[0].push_back(of_tokens("queries, keys and values, behind it", kRule, sizes.mixed()));
  footprint.backward = {{of_tokens("gradient of answers", kGradientSource, sizes.values()),
                         of_tokens("queries, keys and values, behind their convolution", kRule, sizes.mixed())}};
  if (step.cuda) {
    OfChunks(step, sizes).add_to(footprint);
  } else {
    footprint.forward[0].push_back(of_tokens("answers", kRule, sizes.values()));
    footprint.backward[0].push_back(of_tokens("gradients of strengths and decays", kGradientSource, 2 * heads));
    footprint.backward[0].push_back(states(sizes, kHeads, sizes.chunks));
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
