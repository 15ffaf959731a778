// Which parameters a pass reads through their casts to autocast's type alone.
#pragma once

#include <optional>

#include "arch/parameter_table.h"

namespace fathom::arch {

// Of trained matrices in FP32: what is multiplied by them is in the type of products. Embeddings and a head that is one
// of them are read as they are stored, as are projections that are rounded before their products.
struct Casts {
  std::optional<DType> type = {};  // unset: none
  bool of_projections = true;

  bool have(const ParameterRow& row) const {
    if (!type || !row.trained || row.dtype != DType::kF32) return false;
    const Role role = row.spec.role;
    return role == Role::kHead || role == Role::kRouter || role == Role::kExperts ||
           (role == Role::kProjection && of_projections);
  }
};

// Whether linear layers read a copy of the adapter in autocast's type. Experts copy theirs as they need them.
inline bool is_read_cast(const ParameterRow& adapter) { return !adapter.of_base() && adapter.spec.experts == 1; }

}  // namespace fathom::arch
