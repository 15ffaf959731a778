// The embedding of a model whose head is the same matrix. Both gradients of that matrix become one without a second of
// its size, where that is large: the embedding's, which has rows for the batch's tokens alone, is added to the head's
// in parts (footprint/tied_embedding_part.h).
#pragma once

#include <ATen/core/Tensor.h>

namespace fathom::ops {

struct TiedEmbedding {
  at::Tensor stream_TD;  // the rows of the ids
  at::Tensor head_VD;    // the matrix again, for the head: its gradient, which must be nobody else's, is written to
};

// weight_VD: trained. ids_BS: int64 below V. Gradients are those of at::embedding and of a product with weight_VD, bit
// for bit; where no gradient of head_VD comes, it is the embedding's alone.
TiedEmbedding embed_tied(const at::Tensor& weight_VD, const at::Tensor& ids_BS);

}  // namespace fathom::ops
