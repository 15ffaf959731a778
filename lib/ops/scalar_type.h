// fathom's element types as LibTorch's.
#pragma once

#include <c10/core/ScalarType.h>

#include "base/dtype.h"

namespace fathom::ops {

at::ScalarType scalar_type(DType type);
DType dtype_of(at::ScalarType type);  // throws Error for a type that no file holds

}  // namespace fathom::ops
