// On the CPU bit by bit, elsewhere by an operator.
#include "train/finite.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

#include "base/finite.h"
#include "ops/scalar_type.h"

namespace fathom::train {

bool is_finite(const at::Tensor& tensor) {
  if (tensor.is_cpu() && tensor.is_contiguous()) {
    return all_finite(static_cast<const std::byte*>(tensor.const_data_ptr()), ops::dtype_of(tensor.scalar_type()),
                      static_cast<int64_t>(tensor.nbytes()));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return std::isfinite(at::linalg_vector_norm(tensor.detach(), infinity).item<double>());
}

}  // namespace fathom::train
