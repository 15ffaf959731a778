// What a bare number of parameters says: the bytes to load them in each format, and rules of thumb for training, as a
// table and as JSON.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"

namespace fathom::report {

// parameters: at least 1. Throws Error where a size leaves int64.
std::string format_parameters(int64_t parameters);
Json parameters_json(int64_t parameters);

}  // namespace fathom::report
