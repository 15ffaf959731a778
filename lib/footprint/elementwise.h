// What operators without products keep and take: norms, rotations, the gate of the feed-forward layer.
#pragma once

#include <cstdint>

#include "base/activation.h"
#include "footprint/footprint.h"

namespace fathom::footprint {

// Of the residual stream's norm, which answers in the type of products (centred: LayerNorm); and of rows of `groups` in
// a token, each normalised by itself, which stay in that type.
Footprint norm_footprint(const StepSizes& step, int64_t width, bool centred);
Footprint row_norm_footprint(const StepSizes& step, int64_t width, int64_t groups);

Footprint rotary_footprint(const StepSizes& step, int64_t width);

// A fused projection's output, so wide, and the tensors of its parts, `parts` wide in all.
Footprint split_footprint(const StepSizes& step, int64_t width, int64_t parts);
// Heads, so wide in all, of parts of this width in all (ops/join_heads.h).
Footprint join_footprint(const StepSizes& step, int64_t width, int64_t parts);
// In place on its way forwards.
Footprint scale_footprint(const StepSizes& step, int64_t width);
Footprint sum_footprint(const StepSizes& step, int64_t width);
Footprint stream_scale_footprint(const StepSizes& step, int64_t width);

// Rows that are gated by a number each, and added to others (ops/gated_rows.h).
Footprint gated_rows_footprint(const StepSizes& step, int64_t width);

// A ShortConvolution of so many channels (ops/short_convolution.h); packed: of documents end to end.
Footprint convolution_footprint(const StepSizes& step, int64_t width, bool packed);

// Rows that are normalised and gated (ops/gated_norm.h).
Footprint gated_norm_footprint(const StepSizes& step, int64_t width);

// Whether one kernel of ours makes a gate's product, and another its gradients.
bool gate_by_kernel(const StepSizes& step, Activation activation);
// activation(gate) * up, and activation(x) (ops/activation.h).
Footprint gate_footprint(const StepSizes& step, int64_t width, Activation activation);
Footprint activation_footprint(const StepSizes& step, int64_t width);
// One byte for each number (ops/dropout.h).
Footprint dropout_footprint(const StepSizes& step, int64_t width);

}  // namespace fathom::footprint
