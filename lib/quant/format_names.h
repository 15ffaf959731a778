// The formats that a model can be stored in, by the names that commands take.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "quant/layout.h"

namespace fathom::quant {

// "fp32", "fp16", "bf16", "fp8", "int8", "nf4", "nf4-double", "int4".
std::vector<std::string> format_names();

// Codes for projections, or else one type for all weights. INT4's groups are of 128 here: the model decides.
struct NamedFormat {
  std::string_view name;
  std::optional<Scheme> scheme;
  DType dtype = DType::kF32;  // where there is no scheme
};
// Throws UsageError for an unknown name.
NamedFormat find_format(std::string_view name);

}  // namespace fathom::quant
