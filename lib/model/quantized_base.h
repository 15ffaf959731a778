// Which matrices of a frozen base are quantized while it is read, and the bytes of a base. No torch header.
#pragma once

#include <cstdint>
#include <optional>

#include "config/run_config.h"
#include "model/shape.h"
#include "quant/layout.h"

namespace fathom::model {

// How load_in_8bit, load_in_4bit and load_in_fp8 have projections stored; unset: as `dtype` says.
std::optional<quant::Scheme> base_scheme(const config::RunConfig& run);

// Projections of decoder layers are, unless they are trained; embedding, head, norms and biases stay as they are.
bool is_quantizable(const ParameterSpec& spec, bool trained);

// Bytes of the base's weights in memory, adapters apart.
struct BaseBytes {
  int64_t codes = 0, scales = 0;  // of what is quantized
  int64_t values = 0;             // how many numbers these stand for
  int64_t others = 0;             // of what is stored as dtype says
  int64_t sum() const { return codes + scales + others; }
};
BaseBytes base_bytes(const ModelShape& shape, const config::RunConfig& run, DType stored);

}  // namespace fathom::model
