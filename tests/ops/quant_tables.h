// The tables that quantized matrices have on a GPU, on the CPU, where the same operators and kernels are tried.
#pragma once

#include <ATen/ATen.h>

#include <vector>

#include "ops/quantized/quantized_matrix.h"
#include "quant/dynamic.h"
#include "quant/mxfp4.h"
#include "quant/nf4.h"

namespace fathom::ops {

inline QuantTables tables_on_cpu(quant::Scheme scheme) {
  std::vector<float> pairs;
  for (size_t byte = 0; byte < 256; ++byte) {
    const size_t high = byte / 16, low = byte % 16;
    const bool int4 = quant::is_int4(scheme), mxfp4 = quant::is_mxfp4(scheme);
    const auto value = [&](size_t code) { return mxfp4 ? quant::kMxfp4Values[code] : static_cast<float>(code) - 8; };
    pairs.push_back(int4 || mxfp4 ? value(low) : quant::kNf4Values[high]);
    pairs.push_back(int4 || mxfp4 ? value(high) : quant::kNf4Values[low]);
  }
  const auto tensor = [](const auto& values) {
    return at::from_blob(const_cast<float*>(values.data()), {static_cast<int64_t>(values.size())}, at::kFloat).clone();
  };
  return {tensor(pairs).view({256, 2}), tensor(quant::kNf4Thresholds),
          tensor(quant::is_mxfp4(scheme) ? quant::kMxfp4Scales : quant::kSignedDynamic.values),
          tensor(quant::kSignedDynamic.midpoints).narrow(0, 0, 255)};
}

}  // namespace fathom::ops
