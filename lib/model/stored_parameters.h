// Weights as a folder stores them, checked against config.json: floating ones in the mapped file, quantized ones
// copied.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"
#include "arch/stored_parts.h"
#include "model/units.h"
#include "ops/quantized/quantized_matrix.h"
#include "weights/folder.h"

namespace fathom::model {

// Of these spellings of a parameter the one that the folder has; the first where it has none.
std::vector<arch::StoredPart> spelling_in(const weights::ModelFolder& folder,
                                          std::vector<std::vector<arch::StoredPart>> spellings);

// Whether checkpoints carry a tensor of this name although the decoder does not read it.
bool is_ignored(const std::string& name, const arch::Architecture& architecture);

// The embedding of an encoder and decoder once more, as old files have it.
inline bool is_embedding_again(std::string_view tensor) {
  return tensor == "encoder.embed_tokens.weight" || tensor == "decoder.embed_tokens.weight";
}

// The mapped file in place; the mapping is read-only, and so is every use of this tensor. added: rows at the end that
// are not stored. Throws Error, beginning with `where`, for another shape or a type that is no wide floating one.
at::Tensor stored_tensor(const arch::ParameterSpec& spec, int64_t added, const weights::ModelFolder::Entry& entry,
                         const std::string& where);

// Fills the matrix with what the folder, whose codes are architecture.quantized, has of the parameter, and returns the
// names of the tensors that it took, whose pages are released. units: as load_base; only those codes are copied that
// are kept here. Throws Error as quant::find_matrix.
std::vector<std::string> copy_stored(const ops::QuantizedMatrix& matrix, const arch::ParameterSpec& spec,
                                     const arch::Architecture& architecture, const weights::ModelFolder& folder,
                                     const UnitKeeper* units = nullptr);

}  // namespace fathom::model
