// Quantization-aware training: which matrices are rounded while they are trained, and to what. No torch header.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/run_config.h"
#include "model/shape.h"
#include "quant/layout.h"

namespace fathom::model {

// What `qat` says: INT8 of rows, or INT4 in the groups in which a folder has it; unset: no quantization-aware training.
// Of a folder that stores codes too: they need no rounding, and training them is refused elsewhere. Throws Error where
// INT4's groups do not fit the shape.
std::optional<quant::Scheme> fake_scheme(const ModelShape& shape, const config::RunConfig& run);

// Projections of decoder layers are rounded, whether they or adapters on them are trained or nothing but the steps.
bool is_fake_quantized(const ParameterSpec& spec);

// "model.layers.0.mlp.up_proj.int4_log_steps" of "model.layers.0.mlp.up_proj.weight": the name under which the
// logarithms of its steps are trained and saved, in FP32.
std::string name_of_steps(quant::Scheme scheme, const std::string& weight);
bool is_name_of_steps(std::string_view name);
// [N, G]: one for each row, or for each of its groups.
std::vector<int64_t> shape_of_steps(quant::Scheme scheme, const ParameterSpec& spec);
// Of the whole model.
int64_t step_count(const ModelShape& shape, const config::RunConfig& run);

}  // namespace fathom::model
