// Folders in other formats: what stays, what becomes codes, the errors that are told, and nothing half-written.
#include "checkpoint/quantize_folder.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>

#include "arch/architecture.h"
#include "arch/read_folder.h"
#include "base/error.h"
#include "base/json_value.h"
#include "model/decoder.h"
#include "model/stored_parameters.h"
#include "ops/quantized/quantized_rows.h"
#include "ops/scalar_type.h"
#include "weights/folder.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

const std::string kPlain = FATHOM_SOURCE_DIR "/tests/model/quantized/plain";
constexpr char kMatrix[] = "model.layers.0.mlp.down_proj.weight";

at::Tensor tensor_of(const weights::ModelFolder& folder, const std::string& name) {
  const auto entry = folder.find(name);
  const auto options = at::TensorOptions().dtype(ops::scalar_type(entry->info->dtype));
  return at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, options).clone();
}

arch::ParameterSpec spec_of(const std::string& name, const arch::Architecture& architecture) {
  const std::vector<arch::ParameterSpec> specs = arch::parameter_specs(architecture);
  return *std::ranges::find(specs, name, &arch::ParameterSpec::name);
}

class QuantizeFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("fathom_quantize_" + std::to_string(::getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
    request_.source = kPlain;
    request_.out = root_ / "out";
  }
  void TearDown() override { fs::remove_all(root_); }

  QuantizeReport quantize(const std::string& format) {
    request_.format = format;
    return quantize_folder(request_);
  }
  std::string refusal(const std::string& format) {
    try {
      quantize(format);
      return "";
    } catch (const Error& error) {
      EXPECT_FALSE(fs::exists(request_.out));
      EXPECT_FALSE(fs::exists(root_ / ".out.partial"));
      return error.what();
    }
  }
  // A copy of the plain folder whose down_proj has another first number.
  void spoil(float number) {
    request_.source = root_ / "spoilt";
    fs::copy(kPlain, request_.source);
    const weights::ModelFolder folder(kPlain);
    std::vector<at::Tensor> kept;
    std::vector<weights::TensorSource> tensors;
    for (const std::string& name : folder.names()) {
      at::Tensor& tensor = kept.emplace_back(tensor_of(folder, name));
      if (name == kMatrix) tensor.view({-1})[0] = number;
      tensors.push_back(
          {name, DType::kF32, tensor.sizes().vec(), {}, static_cast<const std::byte*>(tensor.const_data_ptr())});
    }
    weights::write_safetensors(request_.source / "model.safetensors", tensors);
  }

  fs::path root_;
  QuantizeRequest request_;
};

TEST_F(QuantizeFolderTest, tells_errors_that_a_reader_finds) {
  const weights::ModelFolder plain(kPlain);
  for (const char* format : {"int8", "fp8", "nf4", "nf4-double", "int4"}) {
    fs::remove_all(request_.out);
    const QuantizeReport report = quantize(format);
    const weights::ModelFolder folder(request_.out);
    const arch::Architecture architecture = arch::parse_architecture(folder.config(), "config.json");
    ASSERT_TRUE(architecture.quantized) << format;
    ASSERT_EQ(report.matrices.size(), 7u);
    const MatrixError& error = report.matrices.back();
    ASSERT_EQ(error.name, kMatrix);
    const at::Tensor before_ND = tensor_of(plain, kMatrix);
    const ops::QuantizedMatrix matrix =
        ops::empty_quantized_matrix(architecture.quantized->scheme, before_ND.size(0), before_ND.size(1), at::kCPU, {});
    model::copy_stored(matrix, spec_of(kMatrix, architecture), architecture, folder);
    const at::Tensor noise_N = (ops::dequantize(matrix, at::kFloat).to(at::kDouble) - before_ND).square().sum(1);
    const at::Tensor signal_N = before_ND.to(at::kDouble).square().sum(1);
    EXPECT_NEAR(error.rmse(), std::sqrt(noise_N.sum().item<double>() / static_cast<double>(before_ND.numel())), 1e-12)
        << format;
    EXPECT_EQ(error.worst_row, (noise_N / signal_N).argmax().item<int64_t>()) << format;
    EXPECT_NEAR(error.signal_to_noise(), 10 * std::log10((signal_N.sum() / noise_N.sum()).item<double>()), 1e-9);
    EXPECT_EQ(report.bytes_after, folder.total_bytes());
    EXPECT_EQ(report.quantized_bytes + report.other_bytes, report.bytes_after);
    EXPECT_TRUE(at::equal(tensor_of(folder, "lm_head.weight"), tensor_of(plain, "lm_head.weight")));
    EXPECT_EQ(architecture.dtype, DType::kF32);
  }
}

// 8 bits keep more than 30 dB, 4 bits 15 or more: a scale or a table mistaken for another would not.
TEST_F(QuantizeFolderTest, loses_what_its_bits_lose) {
  const std::pair<const char*, double> least[] = {
      {"int8", 38}, {"fp8", 30}, {"nf4", 18}, {"nf4-double", 18}, {"int4", 17}};
  for (const auto& [format, decibels] : least) {
    fs::remove_all(request_.out);
    for (const MatrixError& error : quantize(format).matrices) {
      EXPECT_GT(error.signal_to_noise(), decibels) << format << " " << error.name;
      EXPECT_LT(error.signal_to_noise(), decibels + 12) << format << " " << error.name;
      EXPECT_LE(error.worst_signal_to_noise(), error.signal_to_noise());
    }
  }
}

TEST_F(QuantizeFolderTest, divides_weights_into_shards) {
  quantize("int4");
  const weights::ModelFolder one(request_.out);
  fs::remove_all(root_ / "shards");
  request_.out = root_ / "shards";
  request_.shard_bytes = 3000;
  const QuantizeReport report = quantize("int4");
  EXPECT_TRUE(fs::exists(root_ / "shards/model.safetensors.index.json"));
  const weights::ModelFolder many(request_.out);
  ASSERT_EQ(many.names(), one.names());
  EXPECT_EQ(read_json(root_ / "shards/model.safetensors.index.json")["metadata"]["total_size"], report.bytes_after);
  for (const std::string& name : one.names()) {
    const auto a = one.find(name), b = many.find(name);
    ASSERT_EQ(a->info->bytes, b->info->bytes);
    EXPECT_EQ(std::memcmp(a->data(), b->data(), static_cast<size_t>(a->info->bytes)), 0) << name;
  }
}

TEST_F(QuantizeFolderTest, casts_every_weight) {
  quantize("bf16");
  const weights::ModelFolder plain(kPlain), folder(request_.out);
  ASSERT_EQ(folder.names(), plain.names());
  EXPECT_EQ(read_json(request_.out / "config.json")["dtype"], "bfloat16");
  for (const std::string& name : folder.names()) {
    EXPECT_TRUE(at::equal(tensor_of(folder, name), tensor_of(plain, name).to(at::kBFloat16))) << name;
  }
}

TEST_F(QuantizeFolderTest, reads_codes_back_into_floats) {
  quantize("nf4-double");
  const fs::path codes = request_.out;
  request_.source = codes;
  request_.out = root_ / "wide";
  quantize("fp32");
  const weights::ModelFolder narrow(codes), wide(request_.out);
  EXPECT_EQ(wide.names(), weights::ModelFolder(kPlain).names());
  const arch::Architecture architecture = arch::parse_architecture(narrow.config(), "config.json");
  EXPECT_FALSE(arch::parse_architecture(wide.config(), "config.json").quantized);
  const at::Tensor read_ND = tensor_of(wide, kMatrix);
  const ops::QuantizedMatrix matrix =
      ops::empty_quantized_matrix(architecture.quantized->scheme, read_ND.size(0), read_ND.size(1), at::kCPU, {});
  model::copy_stored(matrix, spec_of(kMatrix, architecture), architecture, narrow);
  EXPECT_TRUE(at::equal(read_ND, ops::dequantize(matrix, at::kFloat)));
}

at::Tensor logits_of(const weights::ModelFolder& folder) {
  const arch::Architecture architecture = arch::read_architecture(folder);
  model::ModelOptions options;
  if (architecture.quantized) options.parameters.base_scheme = architecture.quantized->scheme;
  model::Decoder model(architecture, options);
  model.load(folder, 1);
  model.set_training(false);
  const at::NoGradGuard no_gradients;
  return model.forward(at::arange(10).unsqueeze(0));
}

// Codes that no `quantize` makes: gpt-oss's experts come out by what they read, as transformers stores them. BF16 holds
// each of MXFP4's numbers.
TEST_F(QuantizeFolderTest, reads_codes_of_others_back_into_floats) {
  for (const std::string name : {"mxfp4", "fp8_blocks/llama", "fp8_blocks/qwen3_moe"}) {
    const bool mxfp4 = name == "mxfp4";
    request_.source = FATHOM_SOURCE_DIR "/tests/model/" + name;
    request_.out = root_ / ("wide" + fs::path(name).filename().string());
    quantize(mxfp4 ? "bf16" : "fp32");
    const weights::ModelFolder codes(request_.source), wide(request_.out);
    const arch::Architecture read = arch::read_architecture(wide);
    EXPECT_FALSE(read.quantized);
    EXPECT_EQ(read.dtype, mxfp4 ? DType::kBF16 : DType::kF32);
    EXPECT_TRUE(at::allclose(logits_of(wide), logits_of(codes), 1e-5, 1e-5)) << name;
    if (!mxfp4) {
      std::vector<std::string> without_scales = codes.names();
      std::erase_if(without_scales, [](const std::string& each) { return each.ends_with("_scale_inv"); });
      EXPECT_EQ(wide.names(), without_scales);
    }
    request_.out = root_ / "again";
    EXPECT_THAT(refusal("nf4"), HasSubstr(mxfp4 ? "quantized already, in MXFP4" : "already, in FP8, blocks of 128"));
  }
}

TEST_F(QuantizeFolderTest, refuses_what_would_not_be_a_model) {
  spoil(NAN);
  EXPECT_THAT(refusal("nf4"), HasSubstr(std::string("tensor ") + kMatrix + " holds a NaN or an infinity"));
  EXPECT_THAT(refusal("bf16"), HasSubstr("not finite in bfloat16"));
  fs::remove_all(request_.source);
  spoil(70000);
  EXPECT_THAT(refusal("fp16"), HasSubstr("choose bf16 or fp32"));
  EXPECT_EQ(refusal("int8"), "");
  request_.source = request_.out;
  request_.out = root_ / "again";
  EXPECT_THAT(refusal("nf4"), HasSubstr("is quantized already, in INT8"));
  request_.out = request_.source;
  EXPECT_THROW(quantize("bf16"), Error) << "it exists";
  for (const char* inside : {"sub", "sub/deeper", "./sub/"}) {
    request_.out = request_.source / inside;
    EXPECT_THAT(refusal("bf16"), HasSubstr("lies in the folder of the model itself"));
    EXPECT_FALSE(fs::exists(request_.source / "sub"));
  }
  request_.out = request_.source.string() + "-beside";
  EXPECT_EQ(refusal("bf16"), "");
}

}  // namespace
}  // namespace fathom::checkpoint
