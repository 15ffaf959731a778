// The embedding of a model whose head is the same matrix. Both gradients of that matrix become one without a second of
// its size, where that is large: the embedding's, which has rows for the batch's tokens alone, is added to the head's
// on a CPU in parts (footprint/tied_embedding_part.h), on a GPU row by row.
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

// What a GPU does for it: adds to sum_VD the rows of the embedding's gradient that are not zero, each once and as
// at::embedding_dense_backward makes it. ids_T: at least one.
void add_rows_of_ids(const at::Tensor& sum_VD, const at::Tensor& gradient_TD, const at::Tensor& ids_T);

}  // namespace fathom::ops
