// GGUF files: the bytes of llama.cpp's own package, and tensors that do not come as they were told.
#include "weights/gguf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>

#include "base/error.h"
#include "base/file.h"

namespace fathom::weights {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class GgufWriterTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove(path_); }

  fs::path path_ = fs::temp_directory_path() / ("fathom_gguf_" + std::to_string(::getpid()) + ".gguf");
};

// scripts/golden/gguf_files.py makes the same.
GgufKeys golden_keys() {
  return {{"general.architecture", std::string("llama")},
          {"a.count", uint32_t{4096}},
          {"a.rate", 1e-5f},
          {"a.flag", true},
          {"a.other", false},
          {"a.text", std::string("▁Übung")},
          {"a.texts", std::vector<std::string>{"<s>", "a", "Ġb"}},
          {"a.bytes", std::vector<uint8_t>{0, 0x7F, 0xFF}},
          {"a.numbers", std::vector<int32_t>{1, -1, 6}},
          {"a.scores", std::vector<float>{-1.5f, 0, 1000.25f}},
          {"a.flags", std::vector<bool>{true, false, true}}};
}
const std::vector<GgufTensor>& golden_tensors() {
  static const std::vector<GgufTensor> tensors = {
      {"vector", {5}, GgufType::kF32},    {"matrix", {3, 32}, GgufType::kF32}, {"half", {3, 32}, GgufType::kF16},
      {"bf16", {3, 32}, GgufType::kBF16}, {"q8_0", {3, 32}, GgufType::kQ8_0},  {"q4_0", {3, 32}, GgufType::kQ4_0}};
  return tensors;
}

TEST_F(GgufWriterTest, WritesTheBytesOfLlamaCppsPackage) {
  const std::string golden = read_file(FATHOM_SOURCE_DIR "/tests/weights/golden/small.gguf");
  EXPECT_EQ(GgufWriter::bytes_of(golden_keys(), golden_tensors()), std::ssize(golden));
  GgufWriter writer(path_, golden_keys(), golden_tensors());
  const std::string header = read_file(path_);
  ASSERT_EQ(header, golden.substr(0, header.size()));
  size_t at = header.size();
  for (const GgufTensor& tensor : golden_tensors()) {
    const int64_t half = tensor.bytes() / 2;  // in two pieces
    writer.write(golden.data() + at, half);
    writer.write(golden.data() + at + half, tensor.bytes() - half);
    at = (at + static_cast<size_t>(tensor.bytes()) + 31) / 32 * 32;
  }
  writer.finish();
  EXPECT_EQ(read_file(path_), golden);
}

TEST_F(GgufWriterTest, RefusesBytesThatNoTensorHas) {
  const char bytes[64] = {};
  GgufWriter writer(path_, {}, {{"a", {4}, GgufType::kF32}, {"b", {1}, GgufType::kF16}});
  EXPECT_THROW(writer.write(bytes, 17), Error) << "across the end of a tensor";
  writer.write(bytes, 16);
  try {
    writer.finish();
    FAIL() << "b is missing";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("tensor 'b' is not whole"));
  }
  writer.write(bytes, 2);
  writer.finish();
  EXPECT_THROW(writer.write(bytes, 1), Error) << "behind the last";
}

TEST_F(GgufWriterTest, RefusesANameThatOccursTwice) {
  EXPECT_THROW(GgufWriter(path_, {{"a", true}, {"a", false}}, {}), Error);
  EXPECT_THROW(GgufWriter(path_, {}, {{"a", {1}, GgufType::kF32}, {"a", {2}, GgufType::kF32}}), Error);
  EXPECT_FALSE(fs::exists(path_));
}

}  // namespace
}  // namespace fathom::weights
