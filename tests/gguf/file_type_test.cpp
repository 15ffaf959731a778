// File types: which tensor is kept in which type.
#include "gguf/file_type.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace fathom::gguf {
namespace {

using weights::GgufType;

TEST(FileType, KeepsVectorsInFp32AndMatricesInItsOwn) {
  for (const FileType& type : file_types()) {
    EXPECT_EQ(tensor_type(type, {64}, false), GgufType::kF32) << type.name;
    EXPECT_EQ(tensor_type(type, {3, 64}, false), type.matrices) << type.name;
  }
  EXPECT_EQ(tensor_type(find_file_type("q8_0"), {3, 64}, true), GgufType::kQ8_0);
  EXPECT_EQ(tensor_type(find_file_type("q4_0"), {3, 64}, true), GgufType::kQ8_0);
  EXPECT_EQ(tensor_type(find_file_type("q4_0"), {3, 64}, false), GgufType::kQ4_0);
}

TEST(FileType, KeepsRowsThatAreNoWholeBlocksInFp16) {
  EXPECT_EQ(tensor_type(find_file_type("q8_0"), {64, 48}, false), GgufType::kF16);
  EXPECT_EQ(tensor_type(find_file_type("q4_0"), {64, 48}, true), GgufType::kF16);
  EXPECT_EQ(tensor_type(find_file_type("bf16"), {64, 48}, false), GgufType::kBF16);
}

TEST(FileType, HasLlamaCppsNumbers) {
  EXPECT_EQ(find_file_type("f32").number, 0);
  EXPECT_EQ(find_file_type("f16").number, 1);
  EXPECT_EQ(find_file_type("q4_0").number, 2);
  EXPECT_EQ(find_file_type("q8_0").number, 7);
  EXPECT_EQ(find_file_type("bf16").number, 32);
  EXPECT_THROW(find_file_type("q4_k_m"), UsageError);
}

TEST(FileType, IsChosenByWhatIsStored) {
  EXPECT_EQ(file_type_for(DType::kBF16).name, "bf16");
  EXPECT_EQ(file_type_for(DType::kF16).name, "f16");
  EXPECT_EQ(file_type_for(DType::kF32).name, "f16");
}

}  // namespace
}  // namespace fathom::gguf
