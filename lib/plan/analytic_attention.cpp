// Attention by the tensors of each kernel: lib/ops/attention.cpp over LibTorch 2.11.
#include <array>
#include <utility>

#include "base/rounding.h"
#include "ops/amx_scratch.h"
#include "ops/attention_shares.h"
#include "plan/analytic_operators.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

constexpr const char* kFlashBackward =
    "flash attention's backward pass sums in FP32, over padded queries; flash_api.cpp of LibTorch 2.11";
constexpr const char* kTiles = "blocks of queries and keys in the order of AMX, for each thread; lib/ops/amx_scratch.h";
constexpr const char* kMath =
    "attention by its formula keeps the probabilities of all pairs (Vaswani et al. 2017, arXiv 1706.03762)";

}  // namespace

Value Operators::attention(const Value& queries, const Value& keys, const Value& values, int64_t window) {
  const bool packed = !batch_.document_lengths.empty(), windowed = window > 0 && window < batch_.length;
  if (const Limits limits = limits_of(window); s_.amx && limits.window == 0) {
    return amx_attention(queries, keys, values, limits);
  }
  if (packed || (windowed && !s_.math)) {
    return limited_attention(queries, keys, values, window);
  }
  if (s_.math) return math_attention(queries, keys, values);
  if (!s_.cuda) return cpu_flash(queries, keys, values);
  return s_.flash ? cuda_flash(queries, keys, values) : limited_cuda(queries, keys, values, limits_of(0));
}

// Hands the gradient of queries, keys or values on; without a slot nobody wants it. pads: the kernel's heads are
// longer. strided: whoever needs the heads of a token side by side copies.
void Operators::give_heads(const std::shared_ptr<Slot>& slot, Tensor made, bool queries, bool pads, bool strided) {
  if (!slot) return;
  const Product product = wide(queries ? s_.queries() : s_.keys(), s_.compute_bytes);
  if (pads) made = take("gradient of heads, without padding", kBackward, product);
  slot->strided = strided;
  accumulate(slot, std::move(made), product);
}

std::array<Tensor, 3> Operators::take_gradients(const Product& of_queries, const Product& of_keys) {
  constexpr const char* kName = "gradients of queries, keys, values";
  return {take(kName, kBackward, of_queries), take(kName, kBackward, of_keys), take(kName, kBackward, of_keys)};
}

Value Operators::cuda_flash(const Value& queries, const Value& keys, const Value& values) {
  constexpr int64_t kVector = 8;  // 16-bit numbers that the kernel reads at once: heads are padded to a multiple
  const arch::ModelShape& shape = s_.shape;
  const int64_t bytes = s_.compute_bytes, size = round_up(shape.head_dim, kVector);
  const Product q = wide(shape.num_attention_heads * size, bytes), k = wide(shape.num_key_value_heads * size, bytes);
  const bool pads = size != shape.head_dim;
  Tensor kept_q = queries.data, kept_k = keys.data, kept_v = values.data;
  if (pads) {
    kept_q = take("queries, padded", kFlash, q);
    kept_k = take("keys, padded", kFlash, k);
    kept_v = take("values, padded", kFlash, k);
  }
  Tensor output = take("attention's output", kFlash, q), sums = take("logsumexp", kFlash, each_query(1, 4));
  Tensor seed = take("flash attention's random state", kFlash, {{16, "bytes"}});
  Tensor offset = take("flash attention's random state", kFlash, {{8, "bytes"}});
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  if (pads) result.data = take("attention's output, joined", kFlash, wide(s_.queries(), bytes));
  if (!result.slot) return result;
  remember([=, this, slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    Tensor joined, joined_output;
    if (pads) {
      gradient = take("gradient of attention's output, padded", kBackward, q);
      joined = take("gradient of attention's output, padded", kBackward, q);
      joined_output = take("attention's output, padded", kBackward, q);
    }
    std::array<Tensor, 3> made = take_gradients(q, k);
    const int64_t rows = round_up(batch_.length, 128);
    {
      const Product heads = {{batch_.rows, "rows"}, {shape.num_attention_heads, "heads"}, {rows, "queries"}};
      Product one = heads, sum = heads;
      one.push_back({4, "bytes"});
      sum.push_back({round_up(shape.head_dim, 32), ""});
      sum.push_back({4, "bytes"});
      const Tensor softmax = take("flash attention's sums for softmax", kFlashBackward, one);
      const Tensor sum_q = take("flash attention's sum of queries' gradients", kFlashBackward, sum);
      Tensor every_k, every_v;
      if (s_.grouped()) {
        every_k = take("gradients of keys and values for every head", kFlashBackward, q);
        every_v = take("gradients of keys and values for every head", kFlashBackward, q);
      }
    }
    for (Tensor* done :
         {&joined, &joined_output, &gradient, &kept_q, &kept_k, &kept_v, &output, &sums, &seed, &offset}) {
      done->reset();
    }
    for (const int i : {2, 1, 0}) give_heads(slots[i], std::move(made[i]), i == 0, pads, pads);
  });
  return result;
}

Value Operators::amx_attention(const Value& queries, const Value& keys, const Value& values, const Limits& limits) {
  const Product q = wide(s_.queries(), s_.compute_bytes), k = wide(s_.keys(), s_.compute_bytes);
  const int64_t longest = limits.longest, size = s_.shape.head_dim;
  const ops::AttentionShares shares = ops::attention_shares(limits.lengths, s_.shape.num_key_value_heads, s_.threads);
  Tensor output = take("attention's output", kFlash, q), sums = take("logsumexp", kFlash, each_query(1, 4));
  take("attention's blocks", kTiles, {{ops::amx::forward_scratch_bytes(shares, longest, size), "bytes"}});
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  if (!result.slot) return result;
  remember([=, this, kept = std::array{queries.data, keys.data, values.data},
            slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    std::array<Tensor, 3> made = take_gradients(q, k);
    take("attention's blocks, and its sums for keys and values", kTiles,
         {{ops::amx::backward_scratch_bytes(shares, longest, size), "bytes"}});
    for (Tensor* done : {&gradient, &kept[0], &kept[1], &kept[2], &output, &sums}) done->reset();
    for (const int i : {2, 1, 0}) give_heads(slots[i], std::move(made[i]), i == 0, false, false);
  });
  return result;
}

// Groups of query heads are folded: each key head becomes a row of the batch whose query heads share it.
Value Operators::cpu_flash(const Value& queries, const Value& keys, const Value& values) {
  const arch::ModelShape& shape = s_.shape;
  const Product q = wide(s_.queries(), s_.compute_bytes), k = wide(s_.keys(), s_.compute_bytes);
  const bool copies =
      s_.grouped() && shape.num_key_value_heads > 1 && batch_.rows > 1 && batch_.length > 1;  // not a view
  Tensor kept_q = queries.data, kept_k = keys.data, kept_v = values.data;
  if (copies) {
    kept_v = take("values, rows of one head", kFlash, k);
    kept_k = take("keys, rows of one head", kFlash, k);
    kept_q = take("queries, rows of one group", kFlash, q);
  }
  Tensor output = take("attention's output", kFlash, q), sums = take("logsumexp", kFlash, each_query(1, 4));
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  if (copies) result.data = take("attention's output, joined", kFlash, q);
  if (!result.slot) return result;
  remember([=, this, slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    if (copies) gradient = take("gradient of attention's output, folded", kBackward, q);
    std::array<Tensor, 3> made = take_gradients(q, q);  // of queries, keys and values, for every query head
    gradient.reset();
    for (const int i : {1, 2}) {
      if (!slots[i]) made[i].reset();
    }
    for (Tensor* kept : {&kept_q, &kept_k, &kept_v, &output, &sums}) kept->reset();
    if (slots[0] && copies) made[0] = take("gradient of queries, unfolded", kBackward, q);
    give_heads(slots[0], std::move(made[0]), true, false, copies);
    for (const int i : {2, 1}) {
      if (slots[i] && s_.grouped()) made[i] = take("gradients of keys and values, summed in groups", kBackward, k);
      give_heads(slots[i], std::move(made[i]), false, false, copies);
    }
  });
  return result;
}

Value Operators::math_attention(const Value& queries, const Value& keys, const Value& values) {
  const arch::ModelShape& shape = s_.shape;
  const int64_t bytes = s_.compute_bytes, rows = batch_.rows, length = batch_.length;
  const Product q = wide(s_.queries(), bytes), k = wide(s_.keys(), bytes), pairs = each_query(length, bytes);
  const bool copies_k = length > 1 && rows > 1 && shape.num_key_value_heads > 1;  // else a view has the order
  const bool copies_q = length > 1 && (s_.grouped() || copies_k);
  const bool joins = length > 1 && shape.num_attention_heads > 1;
  Tensor kept_q = queries.data, kept_k = keys.data, kept_v = values.data;
  if (copies_k) {
    kept_v = take("values, rows of one head", kMath, k);
    kept_k = take("keys, rows of one head", kMath, k);
  }
  if (copies_q) kept_q = take("queries, rows of one group", kMath, q);
  Value result = {nullptr, new_slot(queries.slot || keys.slot || values.slot)};
  Tensor probabilities, output;
  {
    const Tensor scores = take("scores", kMath, pairs);
    take("mask of the future", kMath, {{length, ""}, {length, ""}, {1, "bytes"}});
    probabilities = take("probabilities", kMath, pairs);
  }
  output = take("attention's output", kMath, q);
  if (!result.slot) probabilities.reset();
  result.data = joins ? take("attention's output, joined", kMath, q) : output;
  if (!result.slot) return result;
  remember([=, this, slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    if (joins) gradient = take("gradient of attention's output, by heads", kBackward, q);
    std::array<Tensor, 3> made;
    made[2] = take("gradients of queries, keys, values", kBackward, k);
    {
      Tensor of_probabilities = take("gradient of probabilities", kBackward, pairs);
      {
        Tensor product;
        if (s_.cuda) product = take("probabilities times their gradient", kMath, pairs);
        of_probabilities = take("gradient of scores", kBackward, pairs);
      }
      made[0] = take("gradients of queries, keys, values", kBackward, q);
      made[1] = take("gradients of queries, keys, values", kBackward, k);
    }
    gradient.reset();
    for (Tensor* kept : {&kept_q, &kept_k, &kept_v, &probabilities}) kept->reset();
    for (const int i : {2, 1, 0}) {
      const int64_t heads = i == 0 ? shape.num_attention_heads : shape.num_key_value_heads;
      give_heads(slots[i], std::move(made[i]), i == 0, false, length > 1 && heads > 1);
    }
  });
  output.reset();
  return result;
}

}  // namespace fathom::plan
