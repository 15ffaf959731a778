// How a quantized matrix lies in memory: its codes and its scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace fathom::quant {

enum class Scheme {
  kInt8,            // quant/int8.h, one scale a row
  kFp8,             // quant/fp8.h, one scale a row
  kNf4,             // quant/nf4.h, blocks of the matrix in row-major order, across the ends of rows
  kNf4DoubleQuant,  // the same, its scales as quant/scales.h has them
  kInt4Group128,    // quant/int4.h, a scale for each 128 values of a row; rows end with a group
  kInt4Group64,
  kInt4Group32,
  kInt4Group16,
};

// Of the largest groups first. The layout on disk (quant/folder_format.h) takes rows of whole groups alone.
inline constexpr Scheme kInt4Schemes[] = {Scheme::kInt4Group128, Scheme::kInt4Group64, Scheme::kInt4Group32,
                                          Scheme::kInt4Group16};

constexpr bool has_row_scales(Scheme scheme) { return scheme == Scheme::kInt8 || scheme == Scheme::kFp8; }
constexpr bool is_nf4(Scheme scheme) { return scheme == Scheme::kNf4 || scheme == Scheme::kNf4DoubleQuant; }
constexpr bool is_int4(Scheme scheme) { return !has_row_scales(scheme) && !is_nf4(scheme); }

// Values in row-major order that share a scale; 0 where a row does.
int64_t block_of(Scheme scheme);
// INT4 with groups of so many values; nothing for other than 128, 64, 32 and 16.
std::optional<Scheme> int4_of_group(int64_t values);

// "INT8", "FP8", "NF4", "NF4, double quantization", "INT4, groups of 128".
std::string_view name_of(Scheme scheme);

struct Layout {
  int64_t code_bytes = 0;
  int64_t scales = 0;        // FP32; with double quantization a byte each
  int64_t outer_scales = 0;  // FP32: of double quantization, the last is the offset
  int64_t scale_bytes = 0;   // of all scales
  int64_t bytes() const { return code_bytes + scale_bytes; }
};

// Of a matrix [rows, columns]. Throws Error where a size leaves int64, or where INT4's groups do not divide a row.
Layout layout_of(Scheme scheme, int64_t rows, int64_t columns);

}  // namespace fathom::quant
