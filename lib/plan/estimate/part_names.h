// What plans call the parts of a layer.
#pragma once

#include "arch/layer_program.h"

namespace fathom::plan {

// That with which a branch begins.
inline const char* first_part(const arch::LayerSpec& spec, arch::Branch branch) {
  if (branch == arch::Branch::kSource) return "queries, and a source's keys and values";
  if (branch == arch::Branch::kFeedForward && spec.feed_forward.experts) return "the router";
  if (branch == arch::Branch::kFeedForward) return spec.feed_forward.gated ? "gate and up" : "the up projection";
  return spec.mixes_by<arch::ShortConvolution>() ? "a convolution's parts" : "queries, keys and values";
}

}  // namespace fathom::plan
