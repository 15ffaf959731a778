// The safetensors reader against bytes written from the format's definition, hostile headers and random mutations.
#include "weights/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>

#include "base/error.h"
#include "base/hash.h"

namespace fathom::weights {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Safetensors : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("fathom_safetensors_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& bytes) {
    std::filesystem::path path = folder_ / "file.safetensors";
    std::filesystem::remove(path);  // some file systems flush a file that is truncated and written again
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // Length, header and data as the format lays them out.
  static std::string assemble(const std::string& header, const std::string& data) {
    std::string bytes;
    for (int byte = 0; byte < 8; ++byte) bytes += static_cast<char>(header.size() >> (8 * byte) & 0xFF);
    return bytes + header + data;
  }
  // The message with which reading is refused; empty if it is not.
  std::string refusal(const std::string& bytes) {
    try {
      SafetensorsFile file(write(bytes));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  std::string header_refusal(const std::string& header, const std::string& data = "") {
    return refusal(assemble(header, data));
  }

  std::filesystem::path folder_;
};

TEST_F(Safetensors, ReadsTheBytesOfTheDefinition) {
  // The header's length, the header, then two BF16 numbers and one F32.
  const std::string header = R"({"b":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
                             R"("a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]}})";
  ASSERT_EQ(header.size(), 0x6du);
  const std::string bytes = std::string("\x6d\0\0\0\0\0\0\0", 8) + header +
                            std::string("\x80\x3f\x00\xc0", 4) +  // 1.0, -2.0
                            std::string("\x00\x00\x80\x3f", 4);   // 1.0
  SafetensorsFile file(write(bytes));
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[0].dtype, DType::kBF16);
  EXPECT_THAT(file.tensors()[0].shape, ElementsAre(2, 1));
  EXPECT_EQ(std::memcmp(file.data(file.tensors()[0]), "\x80\x3f\x00\xc0", 4), 0);
  const TensorInfo* scalar = file.find("b");
  ASSERT_NE(scalar, nullptr);
  EXPECT_TRUE(scalar->shape.empty());
  float value;
  std::memcpy(&value, file.data(*scalar), 4);
  EXPECT_EQ(value, 1.0f);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(Safetensors, ReadsMetadataPaddingAndEmptyTensors) {
  SafetensorsFile file(write(
      assemble(R"({"__metadata__":{"format":"pt"},"e":{"dtype":"I8","shape":[3,0],"data_offsets":[0,0]}}   )", "")));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_NE(file.find("e"), nullptr);
  EXPECT_EQ(file.find("e")->bytes, 0);
}

TEST_F(Safetensors, RefusesTruncationAtEveryLength) {
  const std::string whole =
      assemble(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", std::string("\1\2\3\4", 4));
  EXPECT_EQ(refusal(whole), "");
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(whole.substr(0, length)), "") << length;
  }
  EXPECT_THAT(refusal(whole + "x"), HasSubstr("the file holds 5"));
}

TEST_F(Safetensors, TellsWhatElseAFileIs) {
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 34\n"),
              HasSubstr("is a git-lfs pointer, not the file that it stands for; expected safetensors; fetch the file"));
  EXPECT_THAT(refusal("<!DOCTYPE html><html lang=en></html>"), HasSubstr("is a web page; expected safetensors"));
  EXPECT_THAT(refusal("PK\x03\x04 a PyTorch file"), HasSubstr("is a zip archive; expected safetensors"));
  EXPECT_THAT(refusal("GGUF\x03"), HasSubstr("is a GGUF model; expected safetensors"));
}

TEST_F(Safetensors, TellsADamagedFileFromAnother) {
  EXPECT_THAT(refusal("model_name_or_path: m\n"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(refusal("a: b # c"), HasSubstr("is no safetensors file"));
  EXPECT_THAT(refusal(std::string(8, '\x7f') + R"({"a":)"), HasSubstr("; the file is damaged or is not safetensors"));
}

TEST_F(Safetensors, RefusesHostileLayouts) {
  auto two = [](const char* first, const char* second) {
    return std::string(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)") + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  const std::string data(8, 'x');
  EXPECT_EQ(header_refusal(two("[0,4]", "[4,8]"), data), "");
  EXPECT_THAT(header_refusal(two("[0,4]", "[3,7]"), data), HasSubstr("overlap"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[0,4]"), data), HasSubstr("overlap"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[5,9]"), data + "x"), HasSubstr("gap"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[8,4]"), data), HasSubstr("backwards"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,9]"), data), HasSubstr("need 4 bytes"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4]"), data), HasSubstr("two numbers"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,8,9]"), data), HasSubstr("more than two"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,-8]"), data), HasSubstr("negative"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,8.5]"), data), HasSubstr("whole number"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,18446744073709551615]"), data), HasSubstr("out of range"));
  EXPECT_THAT(header_refusal(two("[0,4]", "[4,99999999999999999999]"), data), HasSubstr("whole number"));
}

TEST_F(Safetensors, RefusesOverflowingShapes) {
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})"), "");
  EXPECT_NE(header_refusal(R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})"), "");
  std::string ones = "1";
  for (int dimension = 0; dimension < 64; ++dimension) ones += ",1";
  EXPECT_THAT(header_refusal(R"({"a":{"dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1]}})", "x"),
              HasSubstr("64 dimensions"));
}

TEST_F(Safetensors, RefusesDuplicatesAndForeignFields) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_THAT(header_refusal(R"({"a":)" + entry + R"(,"a":)" + entry + "}"), HasSubstr("'a' occurs twice"));
  EXPECT_THAT(header_refusal(R"({"a":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("'dtype' occurs twice"));
  EXPECT_THAT(header_refusal(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"scale":1}})"),
              HasSubstr("'scale'"));
  EXPECT_THAT(header_refusal(R"({"a":{"dtype":"U8","shape":[0]}})"), HasSubstr("missing"));
  EXPECT_THAT(header_refusal(R"({"a":{"dtype":"Q3","shape":[0],"data_offsets":[0,0]}})"),
              HasSubstr("file.safetensors"));
  EXPECT_THAT(header_refusal(R"({"__metadata__":{"k":1}})"), HasSubstr("number"));
  EXPECT_THAT(header_refusal(R"({"__metadata__":{"k":"v","k":"v"}})"), HasSubstr("twice"));
  for (const char* header : {"", "[]", " {}", "{}{}", "{\"a\":1}", "{\"a\":[]}", "{\"a\":null}", "{\"a\":{}}", "{"}) {
    EXPECT_NE(header_refusal(header), "") << header;
  }
}

TEST_F(Safetensors, RefusesHugeAndDeepHeaders) {
  EXPECT_THAT(refusal(std::string("\x01\0\0\x02\0\0\0\0{", 9)), HasSubstr("33554433 bytes"));
  EXPECT_NE(refusal(std::string(8, '\xff') + "{}"), "");
  EXPECT_NE(header_refusal("{\"a\":" + std::string(1 << 20, '[')), "");
  std::string deep;
  for (int level = 0; level < 200000; ++level) deep += "{\"a\":";
  EXPECT_NE(header_refusal(deep), "");
  EXPECT_THAT(header_refusal("{\"" + std::string(5000, 'n') + "\":{}}"), HasSubstr("4096"));
}

TensorSource source(const std::string& name, DType dtype, std::vector<int64_t> shape, const std::string& bytes) {
  return {name, dtype, std::move(shape), [bytes](std::byte* destination, int64_t size) {
            ASSERT_EQ(static_cast<size_t>(size), bytes.size());
            std::memcpy(destination, bytes.data(), bytes.size());
          }};
}

TEST_F(Safetensors, WritesWhatItReadsForEveryDtype) {
  std::vector<TensorSource> sources;
  std::map<std::string, std::string> contents;
  for (DType type :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI64, DType::kI32,
        DType::kI16, DType::kI8, DType::kU64, DType::kU32, DType::kU16, DType::kU8, DType::kBool}) {
    std::string name = "t." + std::string(safetensors_name(type)) + " \"\xc3\xa9\"";
    std::string bytes(static_cast<size_t>(6 * size_of(type)), static_cast<char>(sources.size() + 1));
    contents[name] = bytes;
    sources.push_back(source(name, type, {2, 3}, bytes));
  }
  const std::filesystem::path path = folder_ / "out.safetensors";
  const std::string hash = write_safetensors(path, sources);
  EXPECT_EQ(hash, hash_file(path));
  SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), contents.size());
  for (const TensorInfo& info : file.tensors()) {
    EXPECT_THAT(info.shape, ElementsAre(2, 3));
    ASSERT_EQ(static_cast<size_t>(info.bytes), contents.at(info.name).size());
    EXPECT_EQ(std::memcmp(file.data(info), contents.at(info.name).data(), contents.at(info.name).size()), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file.data(info)) % static_cast<size_t>(size_of(info.dtype)), 0u) << info.name;
  }
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Safetensors, WritesTheOrderAndBytesOfTheReference) {
  const std::filesystem::path path = folder_ / "out.safetensors";
  write_safetensors(path, {source("b", DType::kBF16, {1}, "\x01\x02"), source("z", DType::kF32, {1}, "wxyz"),
                           source("a", DType::kBF16, {1}, "\x03\x04")});
  // As safetensors 0.8.0's Python package writes the same three tensors with metadata {"format": "pt"}.
  const std::string header = R"({"__metadata__":{"format":"pt"},"z":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},)"
                             R"("b":{"dtype":"BF16","shape":[1],"data_offsets":[6,8]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(path), assemble(padded, "wxyz\x03\x04\x01\x02"));
}

TEST_F(Safetensors, RefusesToWriteWhatItCouldNotRead) {
  const std::filesystem::path path = folder_ / "out.safetensors";
  EXPECT_THROW(write_safetensors(path, {source("a", DType::kU8, {1}, "x"), source("a", DType::kU8, {1}, "x")}), Error);
  EXPECT_THROW(write_safetensors(path, {source("__metadata__", DType::kU8, {1}, "x")}), Error);
  EXPECT_THROW(write_safetensors(path, {source("a\xff", DType::kU8, {1}, "x")}), Error);
  EXPECT_THROW(write_safetensors(path, {source("a", DType::kU8, {-1}, "")}), Error);
  EXPECT_THROW(write_safetensors(folder_ / "absent" / "out", {source("a", DType::kU8, {1}, "x")}), Error);
}

// Whatever bytes change, the reader either throws Error or describes ranges inside the file.
TEST_F(Safetensors, SurvivesMutation) {
  const std::filesystem::path path = folder_ / "valid.safetensors";
  write_safetensors(
      path, {source("model.w", DType::kF32, {2, 2}, std::string(16, 'a')),
             source("model.b", DType::kBF16, {3}, std::string(6, 'b')), source("model.e", DType::kI64, {0}, "")});
  const std::string valid = read_file(path);
  const std::string alphabet = "{}[]\",:0123456789-.eE\\u tfn\xff\x80";
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = valid;
    for (uint32_t change = 0; change <= random() % 3; ++change) {
      const size_t at = random() % bytes.size();
      const char letter = random() % 2 ? alphabet[random() % alphabet.size()] : static_cast<char>(random());
      switch (random() % 4) {
        case 0:
          bytes[at] = letter;
          break;
        case 1:
          bytes.insert(at, 1, letter);
          break;
        case 2:
          bytes.erase(at, 1);
          break;
        default:
          bytes[at] ^= static_cast<char>(1u << random() % 8);
      }
    }
    try {
      SafetensorsFile file(write(bytes));
      ++accepted;
      int64_t total = 0;
      for (const TensorInfo& info : file.tensors()) {
        ASSERT_GE(info.bytes, 0);
        total += info.bytes;
        const std::byte* data = file.data(info);
        int64_t sum = 0;
        for (int64_t byte = 0; byte < info.bytes; ++byte) sum += std::to_integer<int>(data[byte]);
        ASSERT_GE(sum, 0);
      }
      ASSERT_LE(total, static_cast<int64_t>(bytes.size()));
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 100);
  EXPECT_LT(accepted, 15000);
}

}  // namespace
}  // namespace fathom::weights
