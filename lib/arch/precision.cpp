// From the keys of precision to types.
#include "arch/precision.h"

#include "config/precision.h"

namespace fathom::arch {
namespace {

DType stored_type(const Architecture& architecture, const config::RunConfig& run,
                  const std::optional<DType>& autocast) {
  if (run.dtype) return *run.dtype;
  if (run.method == config::Method::kFull) return DType::kF32;
  const DType held = architecture.dtype_in_use();
  return autocast && size_of(held) == size_of(*autocast) ? *autocast : held;
}

}  // namespace

Precision precision_of(const Architecture& architecture, const config::RunConfig& run) {
  Precision precision;
  precision.autocast = config::autocast_dtype(run);
  precision.stored = stored_type(architecture, run, precision.autocast);
  precision.computed = precision.autocast.value_or(precision.stored);
  return precision;
}

}  // namespace fathom::arch
