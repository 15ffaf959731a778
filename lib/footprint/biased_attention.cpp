// Scores of a few queries at a time, forward and again backward.
#include "footprint/biased_attention.h"

#include <utility>

namespace fathom::footprint {
namespace {

constexpr const char* kAttention = "the scores of a few queries at a time; lib/ops/biased_attention.cpp";

class Attention {
 public:
  Attention(const StepSizes& step, const BiasedAttentionSizes& sizes)
      : step_(step),
        sizes_(sizes),
        groups_(sizes.rows * sizes.heads),
        at_once_(queries_at_once(groups_, sizes.queries, sizes.keys)) {}

  Footprint footprint() const {
    Footprint footprint;
    if (sizes_.differentiated) footprint.kept = {heads("queries, keys and values of heads", 1, 2)};
    const Bytes output = heads("output of heads", 1, 0), copies = heads("queries and keys, copied", 1, 1);
    footprint.forward = {{copies},
                         with({output}, {scores("scores", compute()), scores("scores in FP32", 4)}),
                         with({output}, {scores("scores and probabilities in FP32", 8)}),
                         {output, output}};
    if (sizes_.dropout) {
      footprint.forward.push_back(with({output}, {scores("probabilities, before and after dropout", 9)}));
    }
    footprint.forward.push_back(with({output}, {scores("probabilities in FP32, and for their product", 4 + narrow())}));
    add_work(footprint);
    if (!sizes_.differentiated) return footprint;
    const Tensors gradients = {heads("gradients of queries, keys, values and output", 2, 2)};
    const int64_t mask = sizes_.dropout ? 1 : 0;  // the probabilities that are left go before their gradients come
    footprint.backward = {with(gradients, {scores("probabilities and their gradients", 8 + narrow() + mask)}),
                          with(gradients, {scores("probabilities, gradients of them and of scores", 12 + mask)}),
                          with(gradients, {scores("probabilities and gradients of scores", 8 + narrow() + mask)})};
    if (sizes_.trains_bias) {
      footprint.backward.push_back(with(
          gradients, {scores("probabilities and gradients of scores", 8 + mask),
                      {"gradients of scores, summed over rows and in diagonals",
                       kAttention,
                       {{sizes_.heads, "heads"}, {at_once_, "queries"}, {sizes_.keys + at_once_, ""}, {4, "bytes"}}}}));
    }
    return footprint;
  }

 private:
  void add_work(Footprint& footprint) const {
    const int64_t pairs = value_of({{groups_, ""}, {sizes_.queries, ""}, {sizes_.keys, ""}});
    // Scores are written and read by each of the operators around their products.
    footprint.forward_work = {value_of({{4, ""}, {pairs, ""}, {sizes_.head_size, ""}}),
                              value_of({{20, ""}, {pairs, ""}})};
    if (!sizes_.differentiated) return;
    footprint.backward_work.flops = value_of({{10, ""}, {pairs, ""}, {sizes_.head_size, ""}});
    footprint.backward_work.bytes = value_of({{40, ""}, {pairs, ""}});
  }
  int64_t compute() const { return step_.compute_bytes; }
  int64_t narrow() const { return compute() < 4 ? compute() : 0; }
  static Tensors with(Tensors tensors, const Tensors& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
  }
  // So many tensors as wide as queries, and as keys.
  Bytes heads(const char* what, int64_t queries, int64_t keys) const {
    return {what,
            kAttention,
            {{queries * sizes_.queries + keys * sizes_.keys, "tokens of a row"},
             {groups_, "heads of rows"},
             {sizes_.head_size, ""},
             {compute(), "bytes"}}};
  }
  Bytes scores(const char* what, int64_t bytes) const {
    return {
        what, kAttention, {{groups_, "heads of rows"}, {at_once_, "queries"}, {sizes_.keys, "keys"}, {bytes, "bytes"}}};
  }

  const StepSizes& step_;
  const BiasedAttentionSizes& sizes_;
  const int64_t groups_, at_once_;
};

}  // namespace

Footprint biased_attention_footprint(const StepSizes& step, const BiasedAttentionSizes& sizes) {
  return Attention(step, sizes).footprint();
}

}  // namespace fathom::footprint
