// How a model folder stores quantized projections, and the quantization_config in its config.json that says so, read
// and written.
//
// The layouts are those of bitsandbytes as transformers writes and loads them, of compressed-tensors, of gpt-oss's
// experts in MXFP4, and of FP8 with a scale for a block of rows and columns.
#pragma once

#include <optional>
#include <string_view>

#include "base/json.h"
#include "quant/layout.h"

namespace fathom::quant {

struct FolderFormat {
  Scheme scheme = {};
  Library library = Library::kBitsAndBytes;
  bool operator==(const FolderFormat&) const = default;
};

// The format in which a scheme is written.
inline FolderFormat format_of(Scheme scheme) { return {scheme, row_of(scheme).library}; }

// What a quantization_config says. All projections of decoder layers are quantized and nothing else; in MXFP4 all
// experts. Throws Error naming `origin` (config.json's path) and the key for every other method, format, type, group or
// choice of modules.
FolderFormat parse_quantization_config(const Json& quantization, std::string_view origin);
// Whether it asks for MXFP4, or for FP8 in blocks, whatever else it says.
bool asks_for_mxfp4(const Json& quantization);
bool asks_for_fp8_blocks(const Json& quantization);
// The value of config.json's key "quantization_config".
Json quantization_config(Scheme scheme);

}  // namespace fathom::quant
