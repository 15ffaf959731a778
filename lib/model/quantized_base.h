// Which matrices of a frozen base are quantized, by its folder or while it is read, and the bytes of a base. No torch
// header.
#pragma once

#include <cstdint>
#include <optional>

#include "config/run_config.h"
#include "model/shape.h"
#include "quant/layout.h"

namespace fathom::model {

// How projections are stored: as the folder has them, else as load_in_8bit, load_in_4bit and load_in_fp8 say; unset: as
// `dtype` says. Throws UsageError where folder and settings differ.
std::optional<quant::Scheme> base_scheme(const ModelShape& shape, const config::RunConfig& run);

// Throws UsageError for a run that would train, or draw at random, what its folder stores quantized.
void refuse_training_codes(const ModelShape& shape, const config::RunConfig& run);

// INT4 with the largest of the groups 128, 64, 32 and 16 that divides every row of every projection. Throws UsageError,
// naming the first matrix that has other rows, where none does.
quant::Scheme int4_scheme(const ModelShape& shape);

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
