// Gradient checkpointing (Chen et al. 2016, arXiv 1604.06174): keep a segment's input, run it again in the backward
// pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "ledger/ledger.h"

namespace fathom::ops {

using Segment = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

struct CheckpointOptions {
  ledger::Ledger* ledger = nullptr;  // told when recomputation and the segment's backward start; may be null
  bool random = false;               // the segment draws random numbers (dropout): repeat the same ones
};

// segment(inputs), all of them defined, whose intermediate tensors live only until it returns. Parameters that the
// segment captures get their gradients by accumulation, as without checkpointing, bit for bit. Autocast is as it was at
// this call. What segment captures besides must need no gradient, or be a parameter. anchor: any tensor that requires
// grad (an empty one will do); without it inputs that need no gradient, as under a frozen embedding, would cut the
// graph.
at::Tensor checkpoint(const Segment& segment, const std::vector<at::Tensor>& inputs, const at::Tensor& anchor,
                      const CheckpointOptions& options);

}  // namespace fathom::ops
