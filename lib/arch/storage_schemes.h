// In which codes a run keeps the projections of its model: those of a frozen base, and those to which
// quantization-aware training rounds.
#pragma once

#include <optional>

#include "arch/architecture.h"
#include "config/run_config.h"
#include "quant/layout.h"

namespace fathom::arch {

// How projections are stored: as the folder has them, else as load_in_8bit, load_in_4bit and load_in_fp8 say; unset: as
// `dtype` says. Throws UsageError where folder and settings differ.
std::optional<quant::Scheme> base_scheme(const config::RunConfig& run,
                                         const std::optional<quant::FolderFormat>& stored);

// What a folder has in such codes: "projections" or "experts".
inline const char* coded_parts(quant::Scheme scheme) {
  return quant::is_of_experts_alone(scheme) ? "experts" : "projections";
}

// To which `qat` rounds them while they are trained: INT8 of rows, or INT4 in the groups in which a folder has it;
// unset: no quantization-aware training. Of a folder that stores codes too: they need no rounding, and training them is
// refused elsewhere. Throws UsageError where INT4's groups do not fit the rows.
std::optional<quant::Scheme> fake_scheme(config::Qat qat, const Architecture& architecture);

// INT4 with the largest of the groups 128, 64, 32 and 16 that divides every row of every projection. Throws UsageError,
// naming the first matrix that has other rows, where none does.
quant::Scheme int4_scheme(const Architecture& architecture);

}  // namespace fathom::arch
