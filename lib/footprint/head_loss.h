// What the head with its loss keeps and takes, by its sizes.
#pragma once

#include <cstdint>

#include "footprint/footprint.h"

namespace fathom::footprint {

// The head with its loss, by its sizes.
struct HeadSizes {
  int64_t vocabulary = 0, width = 0;
  int64_t rows = 0;           // that the head reads
  int64_t largest_chunk = 0;  // as LossTargets::chunk_rows
  int64_t spare_bytes = 0;    // as LossTargets::spare_bytes
  bool trained = false;       // the gradient is not in the footprint
  bool comes_cast = false;    // the matrix: no copy is made of it
  bool input_needs_gradient = true;
  bool gradients = true;  // of either; false in an evaluation
  bool capped = false;    // logits are (ops/softcap.h)
};
// The largest chunk with what it leads to; the gradient of a trained head is there in the last moment. Without
// gradients nothing is kept.
Footprint head_loss_footprint(const StepSizes& step, const HeadSizes& sizes);

// Of log-probabilities that a loss of whole sequences is made of (lib/ops/token_logprobs.cpp): logits are made again in
// the backward pass, so that what the head reads is kept, and what leads to gradients is taken there. `sequences` of
// equal length.
Footprint logprobs_footprint(const StepSizes& step, const HeadSizes& sizes, int64_t sequences);

}  // namespace fathom::footprint
