// The one table of element types: safetensors name, Hugging Face name, bytes, kind.
#include "base/dtype.h"

#include <string>

#include "base/error.h"

namespace fathom {
namespace {

struct Row {
  DType type;
  std::string_view safetensors;
  std::string_view name;
  int64_t bytes;
  bool floating;
};

// In the order of the enumeration, so that a type is its row's index.
constexpr Row kRows[] = {
    {DType::kF64, "F64", "float64", 8, true},
    {DType::kF32, "F32", "float32", 4, true},
    {DType::kF16, "F16", "float16", 2, true},
    {DType::kBF16, "BF16", "bfloat16", 2, true},
    {DType::kF8E4M3, "F8_E4M3", "float8_e4m3fn", 1, true},
    {DType::kF8E5M2, "F8_E5M2", "float8_e5m2", 1, true},
    {DType::kI64, "I64", "int64", 8, false},
    {DType::kI32, "I32", "int32", 4, false},
    {DType::kI16, "I16", "int16", 2, false},
    {DType::kI8, "I8", "int8", 1, false},
    {DType::kU64, "U64", "uint64", 8, false},
    {DType::kU32, "U32", "uint32", 4, false},
    {DType::kU16, "U16", "uint16", 2, false},
    {DType::kU8, "U8", "uint8", 1, false},
    {DType::kBool, "BOOL", "bool", 1, false},
};

const Row& row_of(DType type) { return kRows[static_cast<size_t>(type)]; }

[[noreturn]] void throw_unknown(std::string_view name, std::string_view Row::*column) {
  std::string known;
  for (const Row& row : kRows) known += (known.empty() ? "" : ", ") + std::string(row.*column);
  throw Error("unknown data type '" + std::string(name.substr(0, 64)) + "'", "known are " + known);
}

}  // namespace

int64_t size_of(DType type) { return row_of(type).bytes; }
std::string_view safetensors_name(DType type) { return row_of(type).safetensors; }
std::string_view dtype_name(DType type) { return row_of(type).name; }
bool is_floating(DType type) { return row_of(type).floating; }

DType dtype_from_safetensors(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.safetensors == name) return row.type;
  }
  throw_unknown(name, &Row::safetensors);
}

DType dtype_from_name(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string_view bare = name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : name;
  for (const Row& row : kRows) {
    if (row.name == bare) return row.type;
  }
  throw_unknown(name, &Row::name);
}

}  // namespace fathom
