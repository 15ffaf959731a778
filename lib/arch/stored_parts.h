// Under which names a folder stores a parameter that it may have in parts: the experts of a layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/architecture.h"

namespace fathom::arch {

// Rows of a parameter that are a tensor of their own in a folder.
struct StoredPart {
  std::string name;            // "model.layers.3.mlp.experts.7.up_proj.weight"
  std::vector<int64_t> shape;  // as it is stored
  int64_t first_row = 0, rows = 0;
  bool transposed = false;  // the folder has the columns of the parameter as rows
};

// The parts that make up the parameter, in the order of its rows, as transformers saves them; most are one part under
// their own name.
std::vector<StoredPart> stored_parts(const Architecture& architecture, const ParameterSpec& spec);
// In every spelling that transformers 5 reads, the one that it saves first.
std::vector<std::vector<StoredPart>> stored_spellings(const Architecture& architecture, const ParameterSpec& spec);

}  // namespace fathom::arch
