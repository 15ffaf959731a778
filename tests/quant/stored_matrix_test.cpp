// Matrices in a folder: what was written is read back bit by bit, and what does not fit is refused by name.
#include "quant/stored_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "base/error.h"
#include "quant/folder_tensors.h"
#include "tests/quant/folder_fixture.h"

namespace fathom::quant::stored_matrix_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using weights::TensorSource;

constexpr char kName[] = "model.layers.0.mlp.up_proj.weight";
constexpr int64_t kRows = 6, kColumns = 128;

struct Matrix {
  std::vector<std::byte> codes;
  std::vector<float> scales, outer;
  std::vector<uint8_t> scale_codes;
  MatrixBytes bytes;

  explicit Matrix(Scheme scheme, uint32_t seed = 5) {
    const Layout layout = layout_of(scheme, kRows, kColumns);
    std::mt19937 random(seed);
    const auto byte = [&] { return static_cast<uint8_t>(random() % 127); };  // no NaN of FP8
    const auto number = [&] { return std::ldexp(1.0f + static_cast<float>(random() % 8388608) / 8388608, -5); };
    for (int64_t i = 0; i < layout.code_bytes; ++i) codes.push_back(std::byte{byte()});
    for (int64_t i = 0; i < layout.scales; ++i) {
      // As INT8 has them: a largest magnitude / 127.
      scales.push_back(number() / 127);
      scale_codes.push_back(byte());
    }
    if (scheme == Scheme::kFp8Block128) scales.assign(scales.size(), scales.front());  // one block
    for (int64_t i = 0; i < layout.outer_scales; ++i) outer.push_back(number());
    const void* of_blocks = has_byte_scales(scheme) ? static_cast<const void*>(scale_codes.data()) : scales.data();
    bytes = {scheme, kRows, kColumns, codes.data(), static_cast<const std::byte*>(of_blocks), outer.data()};
  }
};

class Stored : public ::testing::TestWithParam<Scheme> {
 protected:
  ScratchModel model_;
};

TEST_P(Stored, IsReadBackAsItWas) {
  const Matrix matrix(GetParam());
  const weights::ModelFolder folder = model_.open(sources_of_matrix(kName, matrix.bytes, DType::kBF16));
  const StoredMatrix stored = find_matrix(folder, format_of(GetParam()), kName, kRows, kColumns);
  EXPECT_EQ(std::memcmp(stored.codes, matrix.codes.data(), matrix.codes.size()), 0);
  EXPECT_EQ(stored.tensors.size(), folder.names().size());
  if (has_byte_scales(GetParam())) {
    EXPECT_EQ(stored.scale_codes, matrix.scale_codes);
    EXPECT_EQ(stored.outer_scales, matrix.outer);
  } else {
    EXPECT_EQ(stored.scales, matrix.scales);
  }
}

TEST_P(Stored, TakesTheBytesOfItsLayoutAndLittleMore) {
  const Matrix matrix(GetParam());
  int64_t bytes = 0;
  for (const StoredTensor& tensor : tensors_of_matrix(format_of(GetParam()), kName, kRows, kColumns)) {
    int64_t of_tensor = size_of(tensor.dtype);
    for (const int64_t size : tensor.shape) of_tensor *= size;
    bytes += of_tensor;
  }
  int64_t layout = layout_of(GetParam(), kRows, kColumns).bytes();
  if (GetParam() == Scheme::kFp8Block128) layout -= (kRows - 1) * 4;  // one scale for all rows

  constexpr int64_t kMost = 256 * 4 + 16 * 4 + 288;  // tables and the state of double quantization
  EXPECT_GE(bytes, layout - 4) << "the offset of double quantization is in its state";
  EXPECT_LE(bytes, layout + kMost);
}

TEST_P(Stored, IsRefusedWithoutAnyOneOfItsTensors) {
  const Matrix matrix(GetParam());
  const auto whole = sources_of_matrix(kName, matrix.bytes, DType::kBF16);
  for (size_t missing = 0; missing < whole.size(); ++missing) {
    if (whole[missing].name.ends_with("weight_format")) continue;  // may be absent
    std::vector<TensorSource> tensors = whole;
    tensors.erase(tensors.begin() + static_cast<ptrdiff_t>(missing));
    const weights::ModelFolder folder = model_.open(tensors);
    try {
      find_matrix(folder, format_of(GetParam()), kName, kRows, kColumns);
      ADD_FAILURE() << whole[missing].name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(folder.path().string()), HasSubstr("there is no tensor " + whole[missing].name),
                        HasSubstr("quantize the model again")));
    }
  }
}

TEST_P(Stored, IsRefusedInAnotherShape) {
  const Matrix matrix(GetParam());
  const weights::ModelFolder folder = model_.open(sources_of_matrix(kName, matrix.bytes, DType::kBF16));
  EXPECT_THROW(find_matrix(folder, format_of(GetParam()), kName, kRows + 1, kColumns), Error);
  EXPECT_THROW(find_matrix(folder, format_of(GetParam()), kName, kRows, 2 * kColumns), Error);
  EXPECT_THROW(find_matrix(folder, format_of(GetParam()), kName, int64_t{1} << 62, 8 * kColumns), Error);
}

std::vector<Scheme> all_schemes() {
  std::vector<Scheme> all;
  for (const SchemeRow& row : schemes()) all.push_back(row.scheme);
  return all;
}
// "INT4groupsof128".
std::string scheme_name(const ::testing::TestParamInfo<Scheme>& info) {
  std::string name;
  for (const char letter : name_of(info.param)) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) name += letter;
  }
  return name;
}
INSTANTIATE_TEST_SUITE_P(Schemes, Stored, ::testing::ValuesIn(all_schemes()), scheme_name);

// ---- one tensor changed at a time.

class Refused : public ::testing::Test {
 protected:
  // What find_matrix says of the matrix with a tensor, known by the end of its name, replaced; "" if nothing.
  std::string with(Scheme scheme, const std::string& ending, const std::function<void(TensorSource&)>& change) {
    const Matrix matrix(scheme);
    auto tensors = sources_of_matrix(kName, matrix.bytes, DType::kBF16);
    for (TensorSource& tensor : tensors) {
      if (!tensor.name.ends_with(ending)) continue;
      change(tensor);
      const weights::ModelFolder folder = model_.open(tensors);
      try {
        find_matrix(folder, format_of(scheme), kName, kRows, kColumns);
        return "";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr(tensor.name)));
        return error.what();
      }
    }
    return "no such tensor";
  }
  std::string with_scale(Scheme scheme, const std::string& ending, float scale) {
    return with(scheme, ending, [&](TensorSource& tensor) {
      std::vector<float> scales(static_cast<size_t>(layout_of(scheme, kRows, kColumns).scales), 1);
      scales.back() = scale;
      tensor = tensor_of(tensor.name, DType::kF32, tensor.shape, scales);
    });
  }
  std::string with_state(const std::string& text, Scheme scheme = Scheme::kNf4) {
    return with(scheme, "bitsandbytes__nf4", [&](TensorSource& tensor) {
      tensor = tensor_of(tensor.name, DType::kU8, {std::ssize(text)}, std::vector<char>(text.begin(), text.end()));
    });
  }
  ScratchModel model_;
};

TEST_F(Refused, OtherTypes) {
  const auto as_bf16 = [](TensorSource& tensor) {
    tensor = tensor_of(tensor.name, DType::kBF16, {kRows, kColumns}, std::vector<uint16_t>(kRows * kColumns));
  };
  EXPECT_THAT(with(Scheme::kInt8, "weight", as_bf16), HasSubstr("is stored as BF16, expected I8 for INT8"));
  EXPECT_THAT(with(Scheme::kFp8, "weight", as_bf16), HasSubstr("is stored as BF16, expected F8_E4M3 for FP8"));
}

TEST_F(Refused, ScalesThatAreNone) {
  for (const float scale : {NAN, -1.0f, HUGE_VALF}) {
    EXPECT_THAT(with_scale(Scheme::kInt8, "SCB", scale), HasSubstr("holds the scale"));
    EXPECT_THAT(with_scale(Scheme::kFp8, "weight_scale", scale), HasSubstr("holds the scale"));
    EXPECT_THAT(with_scale(Scheme::kNf4, "absmax", scale), HasSubstr("holds the scale"));
    EXPECT_THAT(with_scale(Scheme::kInt4Group32, "weight_scale", scale), HasSubstr("holds the scale"));
  }
  EXPECT_EQ(with_scale(Scheme::kInt8, "SCB", 0), "") << "a row of zeros";
}

TEST_F(Refused, CodesOfNan) {
  const std::string error = with(Scheme::kFp8, "weight", [](TensorSource& tensor) {
    std::vector<uint8_t> codes(kRows * kColumns);
    codes[77] = 0xFF;
    tensor = tensor_of(tensor.name, DType::kF8E4M3, {kRows, kColumns}, codes);
  });
  EXPECT_THAT(error, HasSubstr("holds a NaN"));
}

TEST_F(Refused, TablesOfAnotherFormat) {
  const std::string error = with(Scheme::kNf4, "quant_map", [](TensorSource& tensor) {
    tensor = tensor_of(tensor.name, DType::kF32, {16}, std::vector<float>(16, 0.5f));
  });
  EXPECT_THAT(error, HasSubstr("holds other values than those of NF4"));
}

TEST_F(Refused, StatesThatSayOtherThings) {
  const std::string start = R"({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": )";
  EXPECT_EQ(with_state(start + "[6, 128]}"), "");
  EXPECT_THAT(with_state(start + "[128, 6]}"), HasSubstr("says [128, 6], but config.json makes it [6, 128]"));
  EXPECT_THAT(with_state(start + "[6, 1e400]}"), HasSubstr("nf4"));
  EXPECT_THAT(with_state(start + "[9223372036854775807, 128]}"), HasSubstr("shape that is none"));
  EXPECT_THAT(with_state(start + R"([6, 128], "nested_offset": 0.5})"), HasSubstr("has no 'nested_blocksize'"));
  EXPECT_THAT(with_state(start + R"([6, 128], "nested_blocksize": 256, "nested_offset": 0.5})"),
              HasSubstr("with double quantization, other than bnb_4bit_use_double_quant"));
  EXPECT_THAT(with_state(start + "[6, 128]}", Scheme::kNf4DoubleQuant), HasSubstr("without double quantization"));
  EXPECT_THAT(with_state(R"({"quant_type": "fp4", "blocksize": 64, "dtype": "bfloat16", "shape": [6, 128]})"),
              HasSubstr(R"(has quant_type "fp4", not "nf4")"));
  EXPECT_THAT(with_state(R"({"quant_type": "nf4", "blocksize": 128, "dtype": "bfloat16", "shape": [6, 128]})"),
              HasSubstr("has blocksize 128, not 64"));
  EXPECT_THAT(with_state("[]"), HasSubstr("is no JSON object"));
  EXPECT_THAT(with_state("{"), HasSubstr("bitsandbytes__nf4"));
  EXPECT_THAT(with_state(std::string(5000, ' ')), HasSubstr("longer than 4096 bytes"));
  EXPECT_THAT(with_state(std::string(3000, '[')), HasSubstr("bitsandbytes__nf4"));
}

TEST_F(Refused, PackedMatricesOfAnotherShape) {
  const std::string error = with(Scheme::kInt4Group64, "weight_shape", [](TensorSource& tensor) {
    tensor = tensor_of(tensor.name, DType::kI64, {2}, std::vector<int64_t>{kRows, kColumns - 1});
  });
  EXPECT_THAT(error, HasSubstr("says [6, 127], but config.json makes it [6, 128]"));
}

TEST_F(Refused, ExponentsWhoseValuesAreNotFinite) {
  for (const uint8_t exponent : {uint8_t{252}, uint8_t{253}, uint8_t{255}}) {
    const std::string error = with(Scheme::kMxfp4, "_scales", [&](TensorSource& tensor) {
      std::vector<uint8_t> exponents(static_cast<size_t>(layout_of(Scheme::kMxfp4, kRows, kColumns).scales), 127);
      exponents[5] = exponent;
      tensor = tensor_of(tensor.name, DType::kU8, tensor.shape, exponents);
    });
    EXPECT_EQ(error.empty(), exponent == 252) << error;
    if (exponent > 252) {
      EXPECT_THAT(error, HasSubstr("holds the exponent " + std::to_string(exponent)));
    }
  }
}

TEST_F(Refused, BlocksOfAnotherShape) {
  const std::string error = with(Scheme::kMxfp4, "_blocks", [](TensorSource& tensor) {
    tensor = tensor_of(tensor.name, DType::kU8, {1, kRows, kColumns / 2}, std::vector<uint8_t>(kRows * kColumns / 2));
  });
  EXPECT_THAT(
      error,
      HasSubstr("is [1, 6, 64], but model.layers.0.mlp.up_proj.weight [6, 128] in MXFP4 makes it [1, 6, 4, 16]"));
}

// ---- what other writers do.

// The rows of one expert below those of another.
TEST(StoredMatrix, MayBeOfSeveralExperts) {
  const ScratchModel model;
  Matrix matrix(Scheme::kMxfp4);
  matrix.bytes.matrices = 3;
  const weights::ModelFolder folder = model.open(sources_of_matrix("m.experts.down_proj", matrix.bytes, DType::kBF16));
  EXPECT_EQ(folder.find("m.experts.down_proj_blocks")->info->shape, (std::vector<int64_t>{3, 2, 4, 16}));
  EXPECT_EQ(folder.find("m.experts.down_proj_scales")->info->shape, (std::vector<int64_t>{3, 2, 4}));
  const FolderFormat format = format_of(Scheme::kMxfp4);
  const StoredMatrix stored = find_matrix(folder, format, "m.experts.down_proj", kRows, kColumns, 3);
  EXPECT_EQ(std::memcmp(stored.codes, matrix.codes.data(), matrix.codes.size()), 0);
  EXPECT_THROW(find_matrix(folder, format, "m.experts.down_proj", kRows, kColumns, 2), Error);
}

// 300 rows are two whole blocks and a part of one; so are 150 of each of two experts one and a part.
TEST(StoredMatrix, HasTheScalesOfItsBlocksInEachRow) {
  const ScratchModel model;
  const FolderFormat format = format_of(Scheme::kFp8Block128);
  constexpr int64_t kTall = 300, kWide = 256;
  for (const int64_t experts : {int64_t{1}, int64_t{2}}) {
    const int64_t each = kTall / experts, blocks = experts * (experts == 1 ? 3 : 2);
    std::vector<uint8_t> codes(kTall * kWide);
    for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint8_t>(i % 251 % 127);
    std::vector<float> scales;
    for (int64_t i = 0; i < blocks * 2; ++i) scales.push_back(0.5f + static_cast<float>(i));
    std::vector<int64_t> of_codes = {each, kWide}, of_scales = {blocks / experts, 2};
    if (experts > 1) {
      of_codes.insert(of_codes.begin(), experts);
      of_scales.insert(of_scales.begin(), experts);
    }
    const std::vector<TensorSource> tensors = {tensor_of("m.weight", DType::kF8E4M3, of_codes, codes),
                                               tensor_of("m.weight_scale_inv", DType::kF32, of_scales, scales)};
    const weights::ModelFolder folder = model.open(tensors);
    const StoredMatrix stored = find_matrix(folder, format, "m.weight", kTall, kWide, experts);
    EXPECT_EQ(std::memcmp(stored.codes, codes.data(), codes.size()), 0);
    ASSERT_EQ(std::ssize(stored.scales), kTall * 2);
    for (int64_t row = 0; row < kTall; ++row) {
      const int64_t block = row / each * (blocks / experts) + row % each / 128;
      for (int64_t i = 0; i < 2; ++i) {
        ASSERT_EQ(stored.scales[static_cast<size_t>(row * 2 + i)], scales[static_cast<size_t>(block * 2 + i)]) << row;
      }
    }
    const MatrixBytes bytes = {
        format.scheme, kTall,  kWide, stored.codes, reinterpret_cast<const std::byte*>(stored.scales.data()),
        nullptr,       experts};
    const auto again = sources_of_matrix("m.weight", bytes, DType::kBF16);
    ASSERT_EQ(again.size(), 2u);
    EXPECT_EQ(again[0].shape, of_codes);
    EXPECT_EQ(again[1].shape, of_scales);
    std::vector<float> written(scales.size());
    again[1].read(reinterpret_cast<std::byte*>(written.data()), static_cast<int64_t>(written.size() * sizeof(float)));
    EXPECT_EQ(written, scales);
  }
}

TEST(StoredMatrix, TakesScalesOfBlocksInBf16AndRefusesRowsThatEndWithinOne) {
  const ScratchModel model;
  const FolderFormat format = format_of(Scheme::kFp8Block128);
  const auto scales_of = [&](int64_t columns, DType type, std::vector<int64_t> shape, std::vector<uint16_t> bits) {
    const auto codes =
        tensor_of("m.weight", DType::kF8E4M3, {2, columns}, std::vector<uint8_t>(static_cast<size_t>(2 * columns)));
    const auto folder = model.open({codes, tensor_of("m.weight_scale_inv", type, std::move(shape), std::move(bits))});
    return find_matrix(folder, format, "m.weight", 2, columns).scales;
  };
  EXPECT_EQ(scales_of(256, DType::kBF16, {1, 2}, {0x3F80, 0x4049}), (std::vector<float>{1, 3.140625f, 1, 3.140625f}));
  EXPECT_THROW(scales_of(256, DType::kBF16, {2, 2}, {0x3F80, 0x3F80, 0x3F80, 0x3F80}), Error);
  EXPECT_THROW(scales_of(256, DType::kBF16, {1, 2}, {0x3F80, 0x7F80}), Error);
  EXPECT_THROW(scales_of(200, DType::kBF16, {1, 2}, {0x3F80, 0x3F80}), Error);
}

TEST(StoredMatrix, TakesScalesIn16BitsAndOneForAllRows) {
  const ScratchModel model;
  const FolderFormat fp8 = format_of(Scheme::kFp8);
  const auto codes = tensor_of("m.weight", DType::kF8E4M3, {2, 3}, std::vector<uint8_t>(6));
  const auto scales_of = [&](DType type, std::vector<int64_t> shape, std::vector<uint16_t> bits) {
    const auto folder = model.open({codes, tensor_of("m.weight_scale", type, std::move(shape), std::move(bits))});
    return find_matrix(folder, fp8, "m.weight", 2, 3).scales;
  };
  EXPECT_EQ(scales_of(DType::kBF16, {2, 1}, {0x3F80, 0x4049}), (std::vector<float>{1, 3.140625f}));
  EXPECT_EQ(scales_of(DType::kF16, {2, 1}, {0x3C00, 0x0001}), (std::vector<float>{1, 0x1p-24f}));
  EXPECT_EQ(scales_of(DType::kBF16, {1}, {0x4000}), (std::vector<float>{2, 2}));
  EXPECT_EQ(scales_of(DType::kBF16, {}, {0x4000}), (std::vector<float>{2, 2}));
  EXPECT_THROW(scales_of(DType::kF16, {2, 1}, {0x3C00, 0x7C00}), Error);
  EXPECT_THROW(scales_of(DType::kBF16, {3, 1}, {0x4000, 0x4000, 0x4000}), Error);
}

}  // namespace
}  // namespace fathom::quant::stored_matrix_test
