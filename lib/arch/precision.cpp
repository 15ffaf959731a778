// From the keys of precision to types.
#include "arch/precision.h"

namespace fathom::arch {
namespace {

std::optional<DType> autocast_type(const config::RunConfig& run) {
  if (run.bf16) return DType::kBF16;
  if (run.fp16) return DType::kF16;
  return std::nullopt;
}

DType stored_type(const config::RunConfig& run, DType held, const std::optional<DType>& autocast) {
  if (run.dtype) return *run.dtype;
  if (run.method == config::Method::kFull) return DType::kF32;
  return autocast && size_of(held) == size_of(*autocast) ? *autocast : held;
}

}  // namespace

Precision precision_of(const config::RunConfig& run, DType held) {
  Precision precision;
  precision.autocast = autocast_type(run);
  precision.stored = stored_type(run, held, precision.autocast);
  precision.computed = precision.autocast.value_or(precision.stored);
  return precision;
}

}  // namespace fathom::arch
