// Rows of the embedding and the head for tokens that were added to the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include "weights/folder.h"

namespace fathom::model {

// Makes each row the mean of the stored ones, summed in FP64: what transformers' resizing draws its new rows around
// (within 1e-9 of the covariance; Hewitt 2021, "Initializing New Word Embeddings for Pretrained Language Models"),
// without the draw. rows_ND: of the parameter that the stored tensor, a floating-point matrix, belongs to.
void fill_added_rows(const at::Tensor& rows_ND, const weights::ModelFolder::Entry& stored);

}  // namespace fathom::model
