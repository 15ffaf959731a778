// Scores of a few queries at a time, forward and again backward: in one pass over them on a CPU, by operators on CUDA.
#include "footprint/biased_attention.h"

#include <utility>

#include "arch/attention_by_scores.h"

namespace fathom::footprint {
namespace {

constexpr const char* kAttention = "the scores of a few queries at a time; lib/ops/attention/attention_scores.cpp";

class BiasedAttention {
 public:
  BiasedAttention(const StepSizes& step, const BiasedAttentionSizes& sizes)
      : step_(step),
        sizes_(sizes),
        groups_(sizes.rows * sizes.heads),
        at_once_(arch::queries_at_once(groups_, sizes.queries, sizes.keys)) {}

  Footprint footprint() const {
    Footprint footprint;
    if (sizes_.differentiated) footprint.kept = {heads("queries, keys and values of heads", 1, 2)};
    footprint.forward = forward();
    if (sizes_.differentiated) footprint.backward = backward();
    add_work(footprint);
    return footprint;
  }

 private:
  // The heads of one row, and one head of keys, need no copy to lie one after the other, but queries in reverse do, and
  // those of one row that share a head of keys.
  std::vector<Tensors> forward() const {
    const int64_t reversed = sizes_.by_distance && sizes_.queries > 1 ? 1 : 0;
    const bool several = sizes_.key_heads > 1, shared = sizes_.heads > sizes_.key_heads;
    const int64_t keys = several && sizes_.rows > 1 ? 1 : 0, queries = several && shared ? 1 : keys;
    const Tensors given = {heads("queries, keys and values", 1, 2)};
    const Tensors begun = with(given, {heads("queries, keys and values, copied", reversed + queries, 2 * keys),
                                       heads("output of heads", 1, 0)});
    std::vector<Tensors> moments;
    for (const Tensors& moment : step_.cuda ? operators_forward() : kernel_forward()) {
      moments.push_back(with(begun, moment));
    }
    moments.push_back(with(given, {heads("output of heads, in reverse and in order", 2 + reversed, 0)}));
    return moments;
  }

  std::vector<Tensors> kernel_forward() const {
    return {{scores("products that become probabilities", compute() + left_out())},
            {scores("probabilities", compute()), stretch("output of a few queries")}};
  }

  std::vector<Tensors> operators_forward() const {
    std::vector<Tensors> moments = {
        {scores("scores", 4 + narrow())},
        {scores("scores and probabilities in FP32", 8)},
        {scores("probabilities in FP32, and for their product", 4 + narrow()), stretch("output of a few queries")}};
    if (sizes_.dropout) moments.push_back({scores("probabilities, before and after dropout", 9)});
    return moments;
  }

  // Where queries come in several goes, the gradients of keys and values are sums in FP32 from the second on.
  std::vector<Tensors> backward() const {
    const bool several = at_once_ < sizes_.queries;
    const Tensors begun = {heads("gradients of queries and of output", 2, 0),
                           of_keys(several ? 2 : 1, several ? 4 : compute())};
    std::vector<Tensors> moments;
    for (const Tensors& moment : step_.cuda ? operators_backward() : kernel_backward()) {
      moments.push_back(with(begun, moment));
    }
    return moments;
  }

  // Gradients of a bias are summed for each row by itself, then over rows.
  std::vector<Tensors> kernel_backward() const {
    Tensors begun;
    if (sizes_.trains_bias) begun.push_back(of_distances("gradients of biases by distance of each row", sizes_.rows));
    const Tensors both = with(begun, {scores("probabilities and gradients of products", 2 * compute() + left_out())});
    std::vector<Tensors> moments = {with(both, {stretch("gradients of a few queries")}),
                                    with(both, {of_keys(1, compute())})};
    if (sizes_.trains_bias) moments.push_back(with(begun, {of_distances("gradient of biases by distance", 1)}));
    return moments;
  }

  std::vector<Tensors> operators_backward() const {
    Tensors begun;
    const Bytes of_bias = of_distances("gradient of biases by distance", 1);
    if (sizes_.trains_bias) begun.push_back(of_bias);
    const int64_t mask = left_out() + (sizes_.capped ? 4 : 0);  // and the tanh of scores
    std::vector<Tensors> moments = {
        with(begun, {scores("probabilities, gradients of them and of scores, and their product",
                            16 + mask + (sizes_.dropout ? 4 : 0))}),  // gradients before dropout
        with(begun, {scores("probabilities and gradients of scores", 8 + narrow() + mask),
                     stretch("gradients of a few queries")}),
        with(begun, {scores("probabilities and gradients of scores", 8 + narrow() + mask), of_keys(1, compute())})};
    if (sizes_.trains_bias) {
      moments.push_back(with(
          begun, {scores("probabilities and gradients of scores", 8 + mask),
                  of_bias,
                  {"gradients of scores, summed over rows and in diagonals",
                   kAttention,
                   {{sizes_.heads, "heads"}, {at_once_, "queries"}, {sizes_.keys + at_once_, ""}, {4, "bytes"}}}}));
    }
    return moments;
  }

  void add_work(Footprint& footprint) const {
    const int64_t pairs = value_of({{groups_, ""}, {sizes_.queries, ""}, {sizes_.keys, ""}});
    // Scores are written and read by products and by the kernel between them, or by each of the operators there.
    footprint.forward_work = {value_of({{4, ""}, {pairs, ""}, {sizes_.head_size, ""}}),
                              value_of({{step_.cuda ? 20 : 4 * compute(), ""}, {pairs, ""}})};
    if (!sizes_.differentiated) return;
    footprint.backward_work.flops = value_of({{10, ""}, {pairs, ""}, {sizes_.head_size, ""}});
    footprint.backward_work.bytes = value_of({{step_.cuda ? 40 : 9 * compute(), ""}, {pairs, ""}});
  }
  int64_t left_out() const { return sizes_.dropout ? 1 : 0; }  // one byte for each probability
  Bytes of_distances(const char* what, int64_t rows) const {
    return {what,
            kAttention,
            {{rows, "rows"}, {sizes_.heads, "heads"}, {sizes_.queries + sizes_.keys - 1, "distances"}, {4, "bytes"}}};
  }
  int64_t compute() const { return step_.compute_bytes; }
  int64_t narrow() const { return compute() < 4 ? compute() : 0; }
  static Tensors with(Tensors tensors, const Tensors& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
  }
  // So many tensors as wide as queries, and as keys.
  Bytes heads(const char* what, int64_t queries, int64_t keys) const {
    return {
        what,
        kAttention,
        {{queries * sizes_.queries * sizes_.heads + keys * sizes_.keys * sizes_.key_heads, "tokens' heads of a row"},
         {sizes_.rows, "rows"},
         {sizes_.head_size, ""},
         {compute(), "bytes"}}};
  }
  // As wide as the queries that are there at a time.
  Bytes stretch(const char* what) const {
    return {what,
            kAttention,
            {{groups_, "heads of rows"}, {at_once_, "queries"}, {sizes_.head_size, ""}, {compute(), "bytes"}}};
  }
  Bytes of_keys(int64_t count, int64_t bytes) const {
    return {"gradients of keys and values",
            kAttention,
            {{count * sizes_.rows, "of rows"},
             {sizes_.key_heads, "heads"},
             {sizes_.keys, "keys"},
             {sizes_.head_size, ""},
             {bytes, "bytes"}}};
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
  return BiasedAttention(step, sizes).footprint();
}

}  // namespace fathom::footprint
