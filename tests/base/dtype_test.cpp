// Element types: both names lead back to the type, and sizes are those of the formats.
#include "base/dtype.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom {
namespace {

TEST(DTypeNames, LeadBackToTheType) {
  for (int i = 0; i <= static_cast<int>(DType::kBool); ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_safetensors(safetensors_name(type)), type);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
    EXPECT_EQ(dtype_from_name("torch." + std::string(dtype_name(type))), type);
  }
}

TEST(DTypeNames, OthersAreRefused) {
  for (const char* name : {"", "float", "fp32", "BF16", "torch.", "torch.torch.float32", "Float32"}) {
    EXPECT_THROW(dtype_from_name(name), Error) << name;
  }
  EXPECT_THROW(dtype_from_safetensors("bf16"), Error);
}

TEST(DTypeSizes, AreThoseOfTheFormats) {
  EXPECT_EQ(size_of(DType::kF32), 4);
  EXPECT_EQ(size_of(DType::kBF16), 2);
  EXPECT_EQ(size_of(DType::kF8E4M3), 1);
  EXPECT_EQ(size_of(DType::kI64), 8);
  EXPECT_EQ(size_of(DType::kBool), 1);
  EXPECT_TRUE(is_floating(DType::kF8E5M2));
  EXPECT_FALSE(is_floating(DType::kU16));
}

}  // namespace
}  // namespace fathom
