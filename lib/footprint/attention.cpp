// Over LibTorch 2.11.
#include "footprint/attention.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/bytes.h"
#include "base/rounding.h"
#include "cpu/amx_scratch.h"
#include "cpu/attention_shares.h"
#include "footprint/attention_output.h"
#include "footprint/attention_segments.h"
#include "footprint/cudnn_workspace.h"

namespace fathom::footprint {
namespace {

constexpr const char* kFlash =
    "flash attention keeps queries, keys, values, output and logsumexp (Dao 2023, arXiv 2307.08691)";
constexpr const char* kFlashSums =
    "flash attention's backward pass sums in FP32, 128 rows apart; LibTorch's flash_api.cpp";
constexpr const char* kFlashSplits =
    "flash attention divides the keys where queries do not fill a GPU; LibTorch's flash_api.cpp, num_splits_heuristic";
constexpr const char* kCudnn =
    "cuDNN's backward pass sums in FP32; measured with cuDNN 9.19 on compute capability 9.0, "
    "lib/footprint/cudnn_workspace.h";
constexpr const char* kEfficient =
    "memory-efficient attention wants keys and values for every query head (Rabe and Staats 2021, arXiv 2112.05682)";
constexpr const char* kMath =
    "attention by its formula keeps the probabilities of all pairs (Vaswani et al. 2017, arXiv 1706.03762)";
constexpr const char* kSegments =
    "one call for each document, and for blocks of a window; lib/ops/attention/flash_segments.cpp";
constexpr const char* kSinks = "what sinks make of outputs and their log-sum-exps; lib/ops/attention/sinks.h";
constexpr const char* kTiles = "blocks in the order of AMX, for each thread; lib/cpu/amx_scratch.h";

class Attention {
 public:
  Attention(const StepSizes& step, const AttentionSizes& sizes) : step_(step), sizes_(sizes) {
    longest_ = *std::max_element(sizes.lengths.begin(), sizes.lengths.end());
    window_ = sizes.window < longest_ ? sizes.window : 0;
    kept_ = sizes.heads * sizes.head_size;
    keys_ = sizes.key_heads * sizes.head_size;
  }

  bool output_is_apart() const {
    if (sizes_.amx && window_ == 0) return false;
    if (sizes_.kernel == AttentionKernel::kMath) return true;
    if (step_.cuda) return padded_size() != sizes_.head_size;
    if (in_segments()) return false;
    return grouped() && sizes_.key_heads > 1 && sizes_.rows > 1 && longest_ > 1;
  }

  Footprint footprint() {
    if (sizes_.amx && window_ == 0) {
      amx();
    } else if (sizes_.kernel == AttentionKernel::kMath) {
      math();
    } else if (step_.cuda) {
      cuda();
    } else if (in_segments()) {
      segments();
    } else {
      cpu_flash();
    }
    add_work();
    if (!sizes_.differentiated) forward_alone();
    return std::move(footprint_);
  }

 private:
  Bytes heads(const char* what, const char* source, int64_t width) const {
    return {what, source, step_.wide(width, step_.compute_bytes)};
  }
  Bytes each_query(const char* what, const char* source, int64_t bytes) const {
    return {what, source, {{step_.tokens, "queries"}, {sizes_.heads, "heads"}, {bytes, "bytes"}}};
  }
  // Below the first layer that is trained.
  void forward_alone() {
    footprint_.kept.clear();
    if (sizes_.output_is_kept) footprint_.kept.push_back(heads("output of attention", kFlash, kept_));
    footprint_.backward.clear();
    footprint_.backward_work = {};
  }
  static Tensors joined(Tensors tensors, const Tensors& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
  }
  // A CPU's flash kernel is called for each text, and for blocks of a window.
  bool in_segments() const { return sizes_.packed || window_ > 0 || sizes_.sinks; }
  bool is_efficient() const { return sizes_.kernel == AttentionKernel::kMemoryEfficient; }
  int64_t padded_size() const { return round_up(sizes_.head_size, is_efficient() ? 4 : 8); }  // in whole vectors
  // Into how many parts flash attention divides the keys: the fewest that keep multiprocessors within 85 % of as busy
  // as any number does.
  int64_t key_splits() const {
    const int64_t block = padded_size() <= 64 ? 256 : padded_size() <= 128 ? 128 : 64;  // of keys; of queries 64
    const int64_t tiles = sizes_.rows * sizes_.heads * divide_up(longest_, 64), slots = 2 * sizes_.multiprocessors;
    const int64_t blocks = divide_up(longest_, block), most = std::min<int64_t>({128, slots, blocks});
    if (static_cast<double>(tiles) >= 0.8 * static_cast<double>(slots)) return 1;
    const auto busy = [&](int64_t splits) {
      if (splits > 1 && divide_up(blocks, splits) == divide_up(blocks, splits - 1)) return 0.0;
      const double waves = static_cast<double>(tiles * splits) / static_cast<double>(slots);
      return waves / std::ceil(waves);
    };
    double best = 0;
    for (int64_t splits = 1; splits <= most; ++splits) best = std::max(best, busy(splits));
    for (int64_t splits = 1; splits <= most; ++splits) {
      if (busy(splits) >= 0.85 * best) return splits;
    }
    return 1;
  }
  bool grouped() const { return sizes_.heads != sizes_.key_heads; }

  // The formula computes all pairs, and goes over them by itself; fused kernels compute those that are seen, two
  // products forward and five backward, since they make the scores again (Dao 2023, section 3.1).
  void add_work() {
    const bool math = sizes_.kernel == AttentionKernel::kMath;
    const int64_t pairs = math ? squares() : visible_pairs(sizes_.lengths, window_);
    const auto flops = [&](int64_t products) {
      return value_of({{2 * products, ""}, {sizes_.heads, ""}, {pairs, ""}, {sizes_.head_size, ""}});
    };
    footprint_.forward_work.flops = flops(2);
    footprint_.backward_work.flops = flops(math ? 4 : 5);
    if (!math) return;
    const int64_t scores = value_of({{sizes_.heads, ""}, {pairs, ""}, {step_.compute_bytes, ""}});
    footprint_.forward_work.bytes = 6 * scores;
    footprint_.backward_work.bytes = 3 * scores;
  }

  // What a fused kernel keeps, with heads padded to so many numbers, and the moment of its forward pass.
  void fused(const char* source, int64_t head_size) {
    const int64_t wide = sizes_.heads * head_size, narrow = sizes_.key_heads * head_size;
    footprint_.kept = {heads("queries", source, wide), heads("keys and values", source, 2 * narrow),
                       heads("output of attention", source, wide), each_query("logsumexp", source, 4)};
    footprint_.forward = {footprint_.kept};
  }
  Tensors gradients(int64_t queries, int64_t keys, int64_t key_bytes) const {
    return {heads("gradient of attention's output", kGradientSource, kept_),
            heads("gradient of queries", kGradientSource, queries),
            {"gradients of keys and values", kGradientSource, step_.wide(2 * keys, key_bytes)}};
  }

  void amx() {
    fused(kFlash, sizes_.head_size);
    const cpu::AttentionShares shares = cpu::attention_shares(sizes_.lengths, sizes_.key_heads, sizes_.threads);
    footprint_.forward[0].push_back({"attention's blocks",
                                     kTiles,
                                     {{cpu::amx::forward_scratch_bytes(shares, longest_, sizes_.head_size), "bytes"}}});
    Tensors back = gradients(kept_, keys_, step_.compute_bytes);
    back.push_back({"attention's blocks, and its sums for keys and values",
                    kTiles,
                    {{cpu::amx::backward_scratch_bytes(shares, longest_, sizes_.head_size), "bytes"}}});
    footprint_.backward = {std::move(back)};
  }

  // Groups of query heads are folded: each key head becomes a row of the batch whose query heads share it.
  void cpu_flash() {
    fused(kFlash, sizes_.head_size);
    Tensors back = gradients(kept_, kept_, step_.compute_bytes);  // for every query head
    if (output_is_apart()) {
      footprint_.forward[0].push_back(heads("queries, keys, values, as they came", kFlash, kept_ + 2 * keys_));
    }
    footprint_.backward = {std::move(back)};
  }

  void math() {
    const auto document = [&](const char* what, const char* source) -> Bytes {
      const int64_t rows = sizes_.packed ? 1 : sizes_.rows;
      return {what,
              source,
              {{rows, "rows"},
               {sizes_.heads, "heads"},
               {longest_, ""},
               {longest_ + sink_columns(), ""},
               {step_.compute_bytes, "bytes"}}};
    };
    footprint_.kept = {
        heads("queries", kMath, kept_),
        heads("keys and values", kMath, 2 * keys_),
        {"probabilities", kMath, {{sizes_.heads, "heads"}, {squares(), "pairs"}, {step_.compute_bytes, "bytes"}}}};
    add_forward_by_formula(document("scores", kMath));
    const Tensors made = gradients(kept_, keys_, step_.compute_bytes);
    Tensors of_scores = {document("gradient of probabilities", kGradientSource),
                         document("gradient of scores", kGradientSource)};
    if (step_.cuda) of_scores.push_back(document("probabilities times their gradient", kMath));
    if (sizes_.packed) {
      documents_back(made, of_scores);
      return;
    }
    // Gradients of queries and keys come after those of scores.
    Tensors begun = {heads("gradient of attention's output", kGradientSource, kept_),
                     heads("gradient of values", kGradientSource, keys_)};
    footprint_.backward = {joined(std::move(begun), of_scores),
                           joined(made, {document("gradient of scores", kGradientSource)})};
  }

  // Each document's gradients are made by themselves, and written into those of all.
  void documents_back(const Tensors& made, const Tensors& of_scores) {
    const auto longest = [&](const char* what, int64_t width) -> Bytes {
      return {what, kMath, {{longest_, "tokens"}, {width, ""}, {step_.compute_bytes, "bytes"}}};
    };
    Tensors begun = made;
    if (grouped()) begun.push_back(longest("queries of a document and gradients of their output, folded", 2 * kept_));
    begun.push_back(longest("gradient of a document's values", keys_));
    footprint_.backward = {
        joined(begun, of_scores),
        joined(begun, {of_scores[1], longest("gradients of a document's queries and keys", kept_ + keys_)})};
  }

  // Heads are copied where they do not lie as products want them; documents are looked at one after the other, with
  // the output and all probabilities there before. The mask goes before the softmax.
  void add_forward_by_formula(const Bytes& scores) {
    Tensors begun = footprint_.kept;
    const Bytes probabilities = begun.back();
    if (sizes_.packed) {
      begun.push_back(heads("output of attention", kMath, kept_));
      if (grouped()) {
        begun.push_back({"queries of a document, folded",
                         kMath,
                         {{longest_, "tokens"}, {kept_, ""}, {step_.compute_bytes, "bytes"}}});
      }
    } else {
      begun.pop_back();
      const int64_t keys = sizes_.rows > 1 && sizes_.key_heads > 1 ? 2 * keys_ : 0,
                    queries = sizes_.rows > 1 || grouped() ? kept_ : 0;
      begun.push_back(heads("queries, keys and values, copied", kMath, queries + keys));
    }
    begun.push_back(scores);
    footprint_.forward = {begun};
    footprint_.forward[0].push_back({"mask of the future", kMath, {{longest_, ""}, {longest_, ""}, {1, "bytes"}}});
    if (sizes_.packed) {
      if (sizes_.sinks) footprint_.forward.push_back(joined(begun, {scores}));  // and those with sinks behind them
      return;
    }
    begun.push_back(probabilities);
    footprint_.forward.push_back(std::move(begun));
  }

  // The largest segment's output and gradients come on top.
  void segments() {
    fused(kFlash, sizes_.head_size);
    int64_t queries = 0, keys = 0, masked = 0;
    for (const AttentionSegment& segment : attention_segments(sizes_.lengths, window_)) {
      queries = std::max(queries, segment.queries);
      keys = std::max(keys, segment.keys);
      masked = std::max(masked, segment.windowed ? segment.queries : 0);
    }
    const auto part = [&](const char* what, int64_t tokens, int64_t width) -> Bytes {
      return {what, kSegments, {{tokens, "tokens"}, {width, ""}, {step_.compute_bytes, "bytes"}}};
    };
    footprint_.forward[0].push_back(part("a segment's output", queries, kept_));
    Tensors back = gradients(kept_, keys_, masked > 0 ? 4 : step_.compute_bytes);
    back.push_back(part("gradients of a segment's keys and values", 2 * keys, kept_));
    Tensors queries_too = back;
    queries_too.push_back(part("gradient of a segment's queries", queries, kept_));
    Tensors sums = std::move(back), rounded;
    if (masked > 0) {
      const Bytes mask = {"mask of a window's blocks",
                          kSegments,
                          {{masked, "queries"}, {window_ - 1 + masked, "keys"}, {step_.compute_bytes, "bytes"}}};
      footprint_.forward[0].push_back(mask);
      queries_too.push_back(mask);
      sums.push_back(mask);
      if (grouped()) sums.push_back(part("sums of a segment's keys", keys, keys_));
      if (step_.compute_bytes != 4) {
        sums.push_back({"sums of a segment's keys in FP32", kSegments, {{keys, "tokens"}, {keys_, ""}, {4, "bytes"}}});
        rounded = joined(gradients(kept_, keys_, 4), {mask, heads("gradient of keys, rounded", kSegments, keys_)});
      }
    }
    footprint_.backward = {std::move(queries_too), std::move(sums), std::move(rounded)};
  }

  void cuda() {
    const bool flash = !is_efficient();
    const bool cudnn = sizes_.kernel == AttentionKernel::kCudnn && !in_segments() && longest_ > 1;
    const int64_t size = padded_size(), wide = sizes_.heads * size;
    const int64_t narrow = sizes_.key_heads * size;
    const bool limited = !flash || in_segments();  // lib/ops/attention/cuda_attention.cpp, else LibTorch's choice
    const bool pads = size != sizes_.head_size, repeats = !flash && grouped() && sizes_.key_heads > 1;
    const char* source = flash ? kFlash : kEfficient;
    fused(source, size);
    const Bytes every = heads("keys and values for every head", kEfficient, 2 * wide);
    if (repeats) footprint_.forward[0].push_back(every);
    if (const int64_t splits = flash && !cudnn && !sizes_.packed ? key_splits() : 1; splits > 1) {
      footprint_.forward[0].push_back({"outputs and sums of each part of the keys",
                                       kFlashSplits,
                                       {{splits, "parts"},
                                        {step_.tokens, "queries"},
                                        {sizes_.heads, "heads"},
                                        {round_up(size, 32) + 1, ""},
                                        {4, "bytes"}}});
    }
    if (sizes_.sinks) {
      footprint_.forward.push_back(joined(footprint_.kept, {each_query("log-sum-exps with sinks", kSinks, 8)}));
      if (repeats) footprint_.forward.back().push_back(every);
    }
    Tensors back = gradients(wide, flash ? narrow : wide, step_.compute_bytes);
    if (pads && limited) {
      back.front() = heads("gradient of attention's output, padded", source, wide);
    } else if (pads) {
      back.push_back(heads("gradient and output of attention, padded", source, 3 * wide));
    }
    if (sizes_.trains_sinks) {
      footprint_.backward = {{back.front(), heads("output times its gradient", kSinks, wide),
                              each_query("sums of these, and shares of sinks", kSinks, 12)}};
    }
    if (!flash && repeats) back.push_back(every);
    if (cudnn) {
      const CudnnWorkspace work{step_.tokens, sizes_.heads, size, step_.compute_bytes, grouped()};
      back.push_back({"scratch memory of cuDNN's attention", kCudnn, {{work.backward_bytes(), "bytes"}}});
      footprint_.backward = {std::move(back)};
      return;
    }
    if (flash) {
      const auto count = static_cast<int64_t>(sizes_.lengths.size());
      const int64_t rows = sizes_.packed ? step_.tokens + 128 * count : count * round_up(longest_, 128);
      back.push_back({"sums of queries' gradients and for softmax",
                      kFlashSums,
                      {{rows, "queries"}, {sizes_.heads, "heads"}, {round_up(size, 32) + 1, ""}, {4, "bytes"}}});
      if (grouped()) back.push_back(heads("gradients of keys and values for every head", kFlashSums, 2 * wide));
      footprint_.backward.push_back(std::move(back));
      return;
    }
    Tensors product = back, tiles = std::move(back);
    product.push_back(heads("product of output and gradient", kEfficient, wide));
    product.push_back(each_query("sums of output times gradient", kEfficient, 8));
    constexpr int64_t kTile = 64;
    const int64_t rows = size > kTile && sizes_.wide_tiles ? 2 * kTile : kTile;
    tiles.push_back(each_query("sums of output times gradient", kEfficient, 4));
    tiles.push_back({"tiles of queries' gradients",
                     kEfficient,
                     {{static_cast<int64_t>(sizes_.lengths.size()), "sequences"},
                      {sizes_.heads, "heads"},
                      {divide_up(longest_, rows) * divide_up(size, kTile), "tiles"},
                      {4 * rows * kTile + 16, "bytes"}}});
    footprint_.backward.push_back(std::move(product));
    footprint_.backward.push_back(std::move(tiles));
  }

  // By the formula a sink is a key without a value.
  int64_t sink_columns() const { return sizes_.sinks ? 1 : 0; }
  int64_t squares() const {
    int64_t sum = 0;
    for (const int64_t length : sizes_.lengths) {
      sum = checked_add(sum, checked_multiply(length, length + sink_columns(), "pairs of tokens"), "pairs of tokens");
    }
    return sum;
  }

  const StepSizes& step_;
  const AttentionSizes& sizes_;
  int64_t longest_ = 0, window_ = 0;
  int64_t kept_ = 0, keys_ = 0;  // numbers of a token's queries (and its output), and of its keys
  Footprint footprint_;
};

}  // namespace

std::string kernel_name(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::kMath:
      return "math attention";
    case AttentionKernel::kFlash:
      return "flash attention";
    case AttentionKernel::kMemoryEfficient:
      return "memory-efficient attention";
    case AttentionKernel::kCudnn:
      return "cuDNN's attention";
  }
  return "";
}

bool output_is_apart(const StepSizes& step, const AttentionSizes& sizes) {
  return Attention(step, sizes).output_is_apart();
}

Footprint attention_footprint(const StepSizes& step, const AttentionSizes& sizes) {
  return Attention(step, sizes).footprint();
}

}  // namespace fathom::footprint
