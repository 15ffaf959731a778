// A LoRA adapter and its base as one model's tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "arch/parameter_table.h"
#include "weights/folder.h"
#include "weights/safetensors.h"

namespace fathom::checkpoint {

// The base's tensors as sources for weights::write_safetensors, W + scaling·B·A in place of each that the adapter
// changes, of experts with the part of B·A that is theirs: computed in FP32 in blocks of rows, and rounded once to the
// base's type. What the adapter holds whole (modules_to_save) takes the place of the base's. Embedding and head get
// `vocabulary` rows; those that neither file has are the mean of the base's, as a model has them before it is trained.
// Both files must live as long as the sources. Throws Error for a tensor that does not fit the base.
std::vector<weights::TensorSource> merged_sources(const weights::ModelFolder& base,
                                                  const weights::SafetensorsFile& adapter,
                                                  const arch::LoraOptions& lora, int64_t vocabulary);
// Rows of the embedding or the head that the adapter holds whole; nothing where it holds neither.
std::optional<int64_t> saved_vocabulary(const weights::SafetensorsFile& adapter);

// The base's tensors as they are.
std::vector<weights::TensorSource> plain_sources(const weights::ModelFolder& folder);

}  // namespace fathom::checkpoint
