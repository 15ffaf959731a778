// Whether numbers are finite, told from their bytes alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace fathom {

// False where one of the numbers in these bytes is a NaN or an infinity. Whole elements, aligned or not; integers are
// always finite.
bool all_finite(const std::byte* data, DType type, int64_t bytes);

}  // namespace fathom
