// Element types as safetensors and Hugging Face name them, with their sizes.
#pragma once

#include <cstdint>
#include <string_view>

namespace fathom {

enum class DType { kF64, kF32, kF16, kBF16, kF8E4M3, kF8E5M2, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

// Bytes of one element.
int64_t size_of(DType type);
// "F32", "BF16", … (safetensors). dtype_from_safetensors throws Error for an unknown name.
std::string_view safetensors_name(DType type);
DType dtype_from_safetensors(std::string_view name);
// "float32", "bfloat16", … (config.json, YAML). dtype_from_name takes "torch.float32" too; throws Error if unknown.
std::string_view dtype_name(DType type);
DType dtype_from_name(std::string_view name);
bool is_floating(DType type);

}  // namespace fathom
