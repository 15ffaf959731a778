// Attention over documents and under a sliding window by the tensors of each kernel: lib/ops/flash_segments.cpp,
// math_attention.cpp and cuda_attention.cpp over LibTorch 2.11.
#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.h"
#include "base/rounding.h"
#include "ops/attention_segments.h"
#include "plan/analytic_operators.h"
#include "plan/analytic_sources.h"

namespace fathom::plan {
namespace {

constexpr const char* kSegments = "one call for each document, and for blocks of a window; lib/ops/flash_segments.cpp";
constexpr const char* kFlashBackward =
    "flash attention's backward pass sums in FP32, documents 128 rows apart; flash_api.cpp of LibTorch 2.11";
constexpr const char* kMath =
    "attention by its formula keeps the probabilities of each document's pairs (Vaswani et al. 2017, arXiv 1706.03762)";

// The segments that no other exceeds in queries and keys: what the others take is less at every instant.
std::vector<ops::AttentionSegment> largest_of(const std::vector<ops::AttentionSegment>& segments) {
  std::vector<ops::AttentionSegment> largest;
  const auto covers = [](const ops::AttentionSegment& large, const ops::AttentionSegment& small) {
    return large.queries >= small.queries && large.keys >= small.keys;
  };
  for (const ops::AttentionSegment& segment : segments) {
    if (std::any_of(largest.begin(), largest.end(), [&](const auto& other) { return covers(other, segment); }))
      continue;
    std::erase_if(largest, [&](const auto& other) { return covers(segment, other); });
    largest.push_back(segment);
  }
  return largest;
}

}  // namespace

Operators::Limits Operators::limits_of(int64_t window) const {
  Limits limits;
  limits.lengths = batch_.document_lengths;
  if (limits.lengths.empty()) limits.lengths.assign(static_cast<size_t>(batch_.rows), batch_.length);
  limits.longest = train::longest_sequence(batch_);
  limits.window = window < limits.longest ? window : 0;
  return limits;
}

Value Operators::limited_attention(const Value& queries, const Value& keys, const Value& values, int64_t window) {
  const Limits limits = limits_of(window);
  if (s_.math) return document_math(queries, keys, values, limits);
  if (!s_.cuda) return flash_segments(queries, keys, values, limits);
  return limited_cuda(queries, keys, values, limits);
}

// The mask that all blocks of a window share, and while it is made the pairs that it shows.
Tensor Operators::window_mask(const Limits& limits) {
  int64_t rows = 0;
  for (const ops::AttentionSegment& segment : ops::attention_segments(limits.lengths, limits.window)) {
    rows = std::max(rows, segment.windowed ? segment.queries : 0);
  }
  if (rows == 0) return nullptr;
  const auto pairs = [&](int64_t bytes) -> Product {
    return {{rows, "queries"}, {limits.window - 1 + rows, "keys"}, {bytes, "bytes"}};
  };
  Tensor mask = take("mask of a window's blocks", kSegments, pairs(s_.compute_bytes));
  take("pairs within the window", kSegments, pairs(1));
  return mask;
}

Value Operators::flash_segments(const Value& queries, const Value& keys, const Value& values, const Limits& limits) {
  const int64_t bytes = s_.compute_bytes, width = s_.queries(), heads = s_.shape.num_attention_heads;
  const Product q = wide(width, bytes), k = wide(s_.keys(), bytes);
  const auto segments = largest_of(ops::attention_segments(limits.lengths, limits.window));
  Tensor output = take("attention's output", kFlash, q), sums = take("logsumexp", kFlash, each_query(1, 4));
  {
    const Tensor mask = window_mask(limits);
    for (const ops::AttentionSegment& segment : segments) {
      const Tensor one =
          take("a segment's output", kSegments, {{segment.queries, "queries"}, {width, ""}, {bytes, "bytes"}});
      take("a segment's logsumexp", kSegments, {{segment.queries, "queries"}, {heads, "heads"}, {4, "bytes"}});
    }
  }
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  if (!result.slot) return result;
  remember([=, this, kept = std::array{queries.data, keys.data, values.data},
            slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    std::array<Tensor, 3> made;
    {
      const Tensor mask = window_mask(limits);
      made = segment_gradients(segments, mask != nullptr);
    }
    for (Tensor* done : {&gradient, &kept[0], &kept[1], &kept[2], &output, &sums}) done->reset();
    for (const int i : {2, 1, 0}) give_heads(slots[i], std::move(made[i]), i == 0, false, false);
  });
  return result;
}

// overlap: the blocks of a window add to each other's keys, in FP32.
std::array<Tensor, 3> Operators::segment_gradients(const std::vector<ops::AttentionSegment>& segments, bool overlap) {
  const int64_t bytes = s_.compute_bytes, width = s_.queries();
  const Product q = wide(width, bytes), k = wide(s_.keys(), bytes), k_sum = wide(s_.keys(), overlap ? 4 : bytes);
  std::array<Tensor, 3> made = take_gradients(q, k_sum);
  for (const ops::AttentionSegment& segment : segments) {
    const auto part = [&](int64_t count, int64_t columns, int64_t size) {
      return take("a segment's gradients", kSegments, {{count, "tokens"}, {columns, ""}, {size, "bytes"}});
    };
    Tensor of_q = part(segment.queries, width, bytes);
    std::array<Tensor, 2> of_keys = {part(segment.keys, width, bytes), part(segment.keys, width, bytes)};
    of_q.reset();
    for (Tensor& each : of_keys) {
      {
        const Tensor sum = overlap && s_.grouped() ? part(segment.keys, s_.keys(), bytes) : nullptr;
        if (overlap && bytes != 4) part(segment.keys, s_.keys(), 4);
      }
      each.reset();
    }
  }
  if (!overlap || bytes == 4) return made;
  std::array<Tensor, 2> rounded;
  for (Tensor& each : rounded) each = take("gradients of queries, keys, values", kBackward, k);
  made[1] = std::move(rounded[0]);
  made[2] = std::move(rounded[1]);
  return made;
}

// What is kept is taken at once; what each document takes besides is as large as the longest one's.
Value Operators::document_math(const Value& queries, const Value& keys, const Value& values, const Limits& limits) {
  const int64_t bytes = s_.compute_bytes, heads = s_.shape.num_attention_heads, longest = limits.longest;
  const Product q = wide(s_.queries(), bytes), k = wide(s_.keys(), bytes);
  const Product one_q = {{longest, "tokens"}, {s_.queries(), ""}, {bytes, "bytes"}};
  const Product one_k = {{longest, "tokens"}, {s_.keys(), ""}, {bytes, "bytes"}};
  const Product pairs = {{heads, "heads"}, {longest, ""}, {longest, ""}, {bytes, "bytes"}};
  int64_t squares = 0;
  for (const int64_t length : limits.lengths) {
    squares = checked_add(squares, checked_multiply(length, length, "squares of lengths"), "squares of lengths");
  }
  const bool folds = s_.grouped() && longest > 1;
  Tensor output = take("attention's output", kMath, q);
  Tensor probabilities = take("probabilities", kMath, {{heads, "heads"}, {squares, "pairs"}, {bytes, "bytes"}});
  {
    {
      const Tensor folded = folds ? take("a document's queries, rows of one group", kMath, one_q) : nullptr;
      const Tensor scores = take("a document's scores", kMath, pairs);
      take("mask of the future", kMath, {{longest, ""}, {longest, ""}, {1, "bytes"}});
    }
    take("a document's output", kMath, one_q);
  }
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  output.reset();
  if (!result.slot) return result;
  remember([=, this, kept = std::array{queries.data, keys.data, values.data},
            slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    std::array<Tensor, 3> made = take_gradients(q, k);
    {
      const Tensor folded_q = folds ? take("a document's queries, rows of one group", kMath, one_q) : nullptr;
      const Tensor folded_gradient = folds ? take("a document's gradient, rows of one group", kMath, one_q) : nullptr;
      const Tensor of_v = take("a document's gradients", kBackward, one_k);
      Tensor of_scores = take("gradient of probabilities", kBackward, pairs);
      {
        const Tensor product = s_.cuda ? take("probabilities times their gradient", kMath, pairs) : nullptr;
        of_scores = take("gradient of scores", kBackward, pairs);
      }
      const Tensor of_q = take("a document's gradients", kBackward, one_q);
      take("a document's gradients", kBackward, one_k);
    }
    for (Tensor* done : {&gradient, &kept[0], &kept[1], &kept[2], &probabilities}) done->reset();
    for (const int i : {2, 1, 0}) give_heads(slots[i], std::move(made[i]), i == 0, false, false);
  });
  return result;
}

Value Operators::limited_cuda(const Value& queries, const Value& keys, const Value& values, const Limits& limits) {
  const arch::ModelShape& shape = s_.shape;
  const int64_t bytes = s_.compute_bytes, heads = shape.num_attention_heads;
  const int64_t size = round_up(shape.head_dim, s_.flash ? 8 : 4);  // in whole vectors
  const bool pads = size != shape.head_dim, repeats = !s_.flash && s_.grouped() && shape.num_key_value_heads > 1;
  const Product q = wide(heads * size, bytes), k = wide(shape.num_key_value_heads * size, bytes);
  const char* source = s_.flash ? kFlash : kEfficient;
  const auto padded = [&](const Tensor& data, const Product& product) {
    return pads ? take("heads, padded", source, product) : data;
  };
  Tensor kept_q = padded(queries.data, q), kept_k = padded(keys.data, k), kept_v = padded(values.data, k);
  const auto for_every_head = [=, this] {
    return repeats ? take("keys and values for every head", kEfficient, q) : nullptr;
  };
  Tensor every_k = for_every_head(), every_v = for_every_head();
  const auto documents = static_cast<int64_t>(limits.lengths.size());
  const Product each_document = {{documents, "sequences"}, {heads, "heads"}};
  Product sums_size = each_query(1, 4);
  if (!s_.flash) {
    sums_size = each_document;
    sums_size.push_back({round_up(limits.longest, 32), "queries"});
    sums_size.push_back({4, "bytes"});
  }
  Tensor output = take("attention's output", source, q), sums = take("logsumexp", source, sums_size);
  Tensor seed, offset;
  if (s_.flash) {
    seed = take("flash attention's random state", kFlash, {{16, "bytes"}});
    offset = take("flash attention's random state", kFlash, {{8, "bytes"}});
  }
  every_k.reset();
  every_v.reset();
  Value result = {output, new_slot(queries.slot || keys.slot || values.slot)};
  if (pads) result.data = take("attention's output, joined", source, wide(s_.queries(), bytes));
  if (!result.slot) return result;
  remember([=, this, slots = std::array{queries.slot, keys.slot, values.slot}, out = result.slot]() mutable {
    Tensor gradient = std::move(out->gradient);
    if (pads) gradient = take("gradient of attention's output, padded", kBackward, q);
    every_k = for_every_head();
    every_v = for_every_head();
    const Product& made_k = s_.flash ? k : q;  // the memory-efficient kernel's are for every query head
    std::array<Tensor, 3> made = take_gradients(q, made_k);
    if (s_.flash) {
      take_flash_sums(limits, size, q);
    } else {
      take_efficient_sums(each_document, limits.longest, size, q);
      every_k.reset();
      every_v.reset();
      for (const int i : {2, 1}) {
        const bool sums_groups = slots[i] && s_.grouped();
        if (sums_groups) made[i] = take("gradients of keys and values, summed in groups", kBackward, k);
        if (!slots[i]) made[i].reset();
      }
    }
    for (Tensor* done : {&gradient, &kept_q, &kept_k, &kept_v, &output, &sums, &seed, &offset}) done->reset();
    for (const int i : {2, 1, 0}) give_heads(slots[i], std::move(made[i]), i == 0, pads, false);
  });
  return result;
}

void Operators::take_flash_sums(const Limits& limits, int64_t size, const Product& every_head) {
  const int64_t heads = s_.shape.num_attention_heads, rows = round_up(limits.longest, 128);
  const auto documents = static_cast<int64_t>(limits.lengths.size());
  const bool packed = !batch_.document_lengths.empty();
  const int64_t summed = packed ? tokens_ + 128 * documents : documents * rows;
  const Tensor softmax =
      take("flash attention's sums for softmax", kFlashBackward, {{summed, "queries"}, {heads, "heads"}, {4, "bytes"}});
  const Tensor sum_q = take("flash attention's sum of queries' gradients", kFlashBackward,
                            {{summed, "queries"}, {heads, "heads"}, {round_up(size, 32), ""}, {4, "bytes"}});
  if (!s_.grouped()) return;
  const Tensor every_k = take("gradients of keys and values for every head", kFlashBackward, every_head);
  take("gradients of keys and values for every head", kFlashBackward, every_head);
}

void Operators::take_efficient_sums(const Product& each_document, int64_t longest, int64_t size,
                                    const Product& every_head) {
  {
    const Tensor product = take("product of output and gradient", kEfficientBackward, every_head);
    const Tensor sum = take("sums of output times gradient", kEfficientBackward, each_query(1, 4));
    take("sums of output times gradient", kEfficientBackward, each_query(1, 4));
  }
  const Tensor turned = take("sums of output times gradient", kEfficientBackward, each_query(1, 4));
  const int64_t rows = size > kTile && s_.wide_tiles ? 2 * kTile : kTile;
  Product tiles = each_document;
  tiles.push_back({divide_up(longest, rows) * divide_up(size, kTile), "tiles"});
  tiles.push_back({4 * rows * kTile + 16, "bytes"});
  take("tiles of queries' gradients", kEfficientBackward, tiles);
}

}  // namespace fathom::plan
