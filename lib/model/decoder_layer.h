// One layer of the decoder: attention, then the feed-forward part, each with its norm and each added to the stream.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

#include "arch/architecture.h"
#include "ops/attention.h"
#include "ops/linear.h"
#include "ops/module_names.h"

namespace fathom::model {

struct DecoderLayer {
  ops::ModuleNames names;
  arch::LayerSpec spec;
  at::Tensor attention_norm_D, feed_forward_norm_D;
  ops::Linear q, k, v, o;
  at::Tensor query_norm, key_norm;  // [E] of each head, or [H * E] and [K * E]; undefined: rotated as they come
  ops::Linear gate, up, down;
};

// A layer's part of the cache: what was seen before, [B, K, capacity, E], of which `length` positions are in use.
struct CachedLayer {
  at::Tensor keys_BKSE, values_BKSE;
  int64_t length = 0;
};

// What all layers of one forward pass share.
struct LayerContext {
  int64_t rows = 0;  // B; the stream is [T, D] with T = B * S
  double norm_eps = 0;
  at::Tensor cos_SE2, sin_SE2;                      // of the positions of this pass
  std::shared_ptr<const ops::Documents> documents;  // of the one row; null: every row is one
  footprint::AttentionKernel kernel = footprint::AttentionKernel::kFlash;
  bool rounds_inputs = false;  // of linear layers, each token in INT8: ops/fake_quantize.h
  bool training = false;
};

// stream_TD plus what attention and feed-forward add to it; a new tensor of the same type. Computes in the device's
// autocast type, if autocast is on. cache: null in training; else the new keys and values are written behind the old
// ones.
at::Tensor run_layer(const DecoderLayer& layer, const at::Tensor& stream_TD, const LayerContext& context,
                     CachedLayer* cache = nullptr);

}  // namespace fathom::model
