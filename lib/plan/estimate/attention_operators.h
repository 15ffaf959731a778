// What attention of a layer declares of its memory, by the kernel that computes it or by scores.
#pragma once

#include "footprint/attention.h"
#include "plan/estimate/layer_operators.h"

namespace fathom::plan {

// Of the layer's sinks, where it has some that are trained.
footprint::Tensors gradients_of_sinks(const LayerSubject& subject);

// The fused kernel for heads of this size, or the formula; of a model that trains by scores, the one of its
// evaluations.
footprint::AttentionKernel kernel_of(const Target& target, int64_t head_size);

// differentiated: queries, keys or values need gradients. output_is_kept: by the projection behind it.
footprint::Footprint kernel_attention(const LayerSubject& subject, bool differentiated, bool output_is_kept);

// The projection behind a kernel reads what is made of the kernel's own output, which the kernel keeps for itself.
bool output_is_apart(const LayerSubject& subject);

// keys: of a row. by_distance: self-attention, whose pairs are hidden or biased by their distance.
footprint::Footprint scores_attention(const LayerSubject& subject, int64_t keys, bool by_distance, bool differentiated);

}  // namespace fathom::plan
