// Under which names a folder stores a parameter that it may have in parts: the experts of a layer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

// Rows of a parameter that are a tensor of their own in a folder.
struct StoredPart {
  std::string name;            // "model.layers.3.mlp.experts.7.up_proj.weight"
  std::vector<int64_t> shape;  // as it is stored
  int64_t first_row = 0, rows = 0;
  bool transposed = false;  // the folder has the columns of the parameter as rows, of all experts those of each

  // Matrices that lie one below the other in it.
  int64_t matrices() const { return shape.size() == 3 ? shape.front() : 1; }
};

// The parts that make up the parameter, in the order of its rows, as transformers saves them, or, of
// ExpertFiles::kWhole, as the hub has them; most are one part under their own name.
std::vector<StoredPart> stored_parts(const Architecture& architecture, const ParameterSpec& spec);
// In every spelling that transformers 5 reads, that of stored_parts first.
std::vector<std::vector<StoredPart>> stored_spellings(const Architecture& architecture, const ParameterSpec& spec);
// Likewise of a parameter that such a folder has in codes, whose tensors stand in the place of the parts: in FP8 in
// blocks as stored_spellings, else the whole of it under its own name.
std::vector<std::vector<StoredPart>> spellings_in_codes(const Architecture& architecture, const ParameterSpec& spec);

// Whether a parameter of this name may have other names or shapes in a folder than in the model.
bool may_be_stored_otherwise(std::string_view parameter);

// Whether folders have the columns of a linear layer's matrix as rows, which PEFT calls fan_in_fan_out.
bool stores_transposed(const Architecture& architecture);

// Whether a tensor of this name in a folder is the embedding, or a head of its own, in the spelling of any family and
// of any text part.
bool is_stored_embedding(std::string_view tensor);
bool is_stored_head(std::string_view tensor);

// Why no folder that fathom writes holds the projections of such a model in codes: "has experts", for the middle of a
// sentence; and why none does in FP8 in blocks. Null: some do.
const char* why_not_stored_in_codes(const Architecture& architecture);
const char* why_not_stored_in_blocks(const Architecture& architecture);

}  // namespace fathom::arch
