// The formats of quantized matrices, one row each, and how a matrix lies in memory: its codes and its scales.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "config/run_config.h"

namespace fathom::quant {

enum class Scheme {
  kInt8,            // quant/int8.h, one scale a row
  kFp8,             // quant/fp8.h, one scale a row
  kFp8Block128,     // the same codes, a scale for each 128 values of a row; rows end with a group, and folders have one
                    // scale for the groups of 128 rows
  kNf4,             // quant/nf4.h, blocks of the matrix in row-major order, across the ends of rows
  kNf4DoubleQuant,  // the same, its scales as quant/scales.h has them
  kInt4Group128,    // quant/int4.h, a scale for each 128 values of a row; rows end with a group
  kInt4Group64,
  kInt4Group32,
  kInt4Group16,
  kMxfp4,  // quant/mxfp4.h, of experts alone; rows end with a block
};

// The largest groups stand first. The layout on disk (quant/folder_format.h) takes rows of whole groups alone.
inline constexpr Scheme kInt4Schemes[] = {Scheme::kInt4Group128, Scheme::kInt4Group64, Scheme::kInt4Group32,
                                          Scheme::kInt4Group16};

enum class Codes { kInt8, kFp8, kNf4, kInt4, kMxfp4 };
// What codes are, whatever shares their scale.
struct CodesRow {
  Codes codes;
  int64_t bits;
  // A run of n values and its codes, which begin with a byte; the first returns the scale (quant/int8.h).
  float (*quantize)(const float* values, int64_t n, uint8_t* codes);
  void (*dequantize)(const uint8_t* codes, float scale, int64_t n, float* values);
};
const CodesRow& row_of(Codes codes);

// Whose names, types and shapes of tensors a folder has (quant/folder_tensors.h).
enum class Library {
  kBitsAndBytes,       // INT8 and NF4
  kCompressedTensors,  // FP8 ("float-quantized"), INT4 ("pack-quantized"); INT8 ("int-quantized") is read only
  kTransformers,       // MXFP4, of gpt-oss's experts
  kBlockFp8,           // FP8 in blocks of 128 rows and columns ("fp8"), first of DeepSeek-V3
};

struct SchemeRow {
  Scheme scheme;
  std::string_view title;
  // By which commands take it; INT4's groups follow from the model, and MXFP4 and FP8 in blocks are read alone.
  std::string_view word;
  Codes codes;
  int64_t block;    // values in row-major order that share a scale; 0 where a row does
  Library library;  // whose layout folders are written in
  // The key by which a run asks for it, with bnb_4bit_use_double_quant or without; INT4 and what is read alone have
  // none.
  const char* key = nullptr;
  bool config::RunConfig::*load_in = nullptr;
};
std::span<const SchemeRow> schemes();
const SchemeRow& row_of(Scheme scheme);

inline bool has_row_scales(Scheme scheme) { return row_of(scheme).block == 0; }
inline bool is_int8(Scheme scheme) { return row_of(scheme).codes == Codes::kInt8; }
inline bool is_fp8(Scheme scheme) { return row_of(scheme).codes == Codes::kFp8; }
// Whether GPUs that multiply in FP8 take such codes as they are: a product has one scale for each row.
inline bool is_fp8_of_rows(Scheme scheme) { return is_fp8(scheme) && has_row_scales(scheme); }
inline bool is_nf4(Scheme scheme) { return row_of(scheme).codes == Codes::kNf4; }
inline bool is_int4(Scheme scheme) { return row_of(scheme).codes == Codes::kInt4; }
inline bool is_mxfp4(Scheme scheme) { return row_of(scheme).codes == Codes::kMxfp4; }
inline bool is_in_4_bits(Scheme scheme) { return row_of(row_of(scheme).codes).bits == 4; }
// Whether scales are codes themselves, with scales of their own (quant/scales.h).
inline bool has_double_scales(Scheme scheme) { return scheme == Scheme::kNf4DoubleQuant; }
// Whether scales are bytes: those, and the exponents of MXFP4.
inline bool has_byte_scales(Scheme scheme) { return has_double_scales(scheme) || is_mxfp4(scheme); }
// What a model in these codes has of them: experts alone, or projections and experts.
inline bool is_of_experts_alone(Scheme scheme) { return is_mxfp4(scheme); }
inline int64_t block_of(Scheme scheme) { return row_of(scheme).block; }
// Whether rows end with a block.
inline bool has_blocks_of_rows(Scheme scheme) { return !has_row_scales(scheme) && !is_nf4(scheme); }
// "INT8", "FP8", "FP8, blocks of 128", "NF4", "NF4, double quantization", "INT4, groups of 128", "MXFP4".
inline std::string_view name_of(Scheme scheme) { return row_of(scheme).title; }
// INT4 with groups of so many values; nothing for other than 128, 64, 32 and 16.
std::optional<Scheme> int4_of_group(int64_t values);

struct Layout {
  int64_t code_bytes = 0;
  int64_t scales = 0;        // FP32; a byte each where has_byte_scales
  int64_t outer_scales = 0;  // FP32: of double quantization, the last is the offset
  int64_t scale_bytes = 0;   // of all scales
  int64_t bytes() const { return code_bytes + scale_bytes; }
};

// The layout of a matrix [rows, columns]. Throws Error where a size leaves int64, or where blocks of rows do not divide
// a row.
Layout layout_of(Scheme scheme, int64_t rows, int64_t columns);

}  // namespace fathom::quant
