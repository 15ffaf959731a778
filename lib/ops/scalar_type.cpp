// fathom's element types as LibTorch's, and back.
#include "ops/scalar_type.h"

#include <array>
#include <string>
#include <utility>

#include "base/error.h"

namespace fathom::ops {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 15> kTypes = {{{DType::kF64, at::kDouble},
                                                                      {DType::kF32, at::kFloat},
                                                                      {DType::kF16, at::kHalf},
                                                                      {DType::kBF16, at::kBFloat16},
                                                                      {DType::kF8E4M3, at::kFloat8_e4m3fn},
                                                                      {DType::kF8E5M2, at::kFloat8_e5m2},
                                                                      {DType::kI64, at::kLong},
                                                                      {DType::kI32, at::kInt},
                                                                      {DType::kI16, at::kShort},
                                                                      {DType::kI8, at::kChar},
                                                                      {DType::kU64, at::kUInt64},
                                                                      {DType::kU32, at::kUInt32},
                                                                      {DType::kU16, at::kUInt16},
                                                                      {DType::kU8, at::kByte},
                                                                      {DType::kBool, at::kBool}}};

}  // namespace

at::ScalarType scalar_type(DType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == type) return theirs;
  }
  throw Error("unknown element type " + std::to_string(static_cast<int>(type)));
}

DType dtype_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw Error("no safetensors file holds elements of type " + std::string(at::toString(type)));
}

}  // namespace fathom::ops
