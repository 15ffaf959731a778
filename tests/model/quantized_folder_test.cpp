// Folders that bitsandbytes and compressed-tensors quantized (scripts/golden/quantized_folders.py): their logits, their
// codes as they are, and what such a folder refuses.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "arch/parameter_table.h"
#include "arch/run.h"
#include "arch/storage_schemes.h"
#include "base/error.h"
#include "model/decoder.h"
#include "quant/stored_matrix.h"
#include "weights/folder.h"

namespace fathom::model {
namespace {

using ::testing::HasSubstr;

// Sums in another order; the weights are the same.
constexpr double kQuantizedTolerance = 1e-5;

const std::string kRoot = FATHOM_SOURCE_DIR "/tests/model/quantized/";
const char* const kFolders[] = {"int8", "nf4", "nf4_double", "int4", "fp8", "fp8_tensor", "int8_rows"};

arch::Architecture architecture_of(const weights::ModelFolder& folder) {
  return arch::parse_architecture(folder.config(), folder.path().string() + "/config.json");
}

ModelOptions options_of(const arch::Architecture& architecture, const config::RunConfig& run = {}) {
  ModelOptions options;
  options.parameters.base_scheme = arch::resolve(run, architecture).settings.base_scheme;
  return options;
}

at::Tensor expected_tensor(const std::string& name, const char* tensor, at::ScalarType type) {
  const weights::SafetensorsFile file(kRoot + name + "/expected.safetensors");
  const weights::TensorInfo* info = file.find(tensor);
  return at::from_blob(const_cast<std::byte*>(file.data(*info)), info->shape, at::TensorOptions().dtype(type)).clone();
}

double difference(const at::Tensor& actual, const at::Tensor& expected) {
  return ((actual - expected).abs().max() / expected.abs().max()).item<double>();
}

class QuantizedFolder : public ::testing::TestWithParam<const char*> {};

TEST_P(QuantizedFolder, has_the_logits_of_the_library_that_wrote_it) {
  const weights::ModelFolder folder(kRoot + GetParam());
  const arch::Architecture architecture = architecture_of(folder);
  ASSERT_TRUE(architecture.quantized);
  Decoder model(architecture, options_of(architecture));
  model.load(folder, 1);
  model.set_training(false);
  const at::NoGradGuard no_gradients;
  const at::Tensor ids_BS = expected_tensor(GetParam(), "ids", at::kLong);
  const at::Tensor logits = model.forward(ids_BS);
  EXPECT_LE(difference(logits, expected_tensor(GetParam(), "logits", at::kFloat)), kQuantizedTolerance);
  EXPECT_GE(difference(logits, expected_tensor("plain", "logits", at::kFloat)), 10 * kQuantizedTolerance)
      << "rounding shows";
}

TEST_P(QuantizedFolder, keeps_its_codes_and_is_frozen) {
  const weights::ModelFolder folder(kRoot + GetParam());
  const arch::Architecture architecture = architecture_of(folder);
  Decoder model(architecture, options_of(architecture));
  model.load(folder, 1);
  EXPECT_TRUE(model.trained_parameters().empty());
  size_t compared = 0;
  for (const Parameter& parameter : model.parameters()) {
    if (!parameter.name.ends_with("_proj.weight")) continue;
    const auto spec = arch::parameter_specs(architecture);
    const auto found = std::find_if(spec.begin(), spec.end(), [&](const auto& s) { return s.name == parameter.name; });
    const quant::StoredMatrix stored =
        quant::find_matrix(folder, *architecture.quantized, parameter.name, found->shape[0], found->shape[1]);
    EXPECT_EQ(std::memcmp(parameter.tensor.const_data_ptr(), stored.codes, parameter.tensor.nbytes()), 0);
    ++compared;
  }
  EXPECT_EQ(compared, 7u);
}

INSTANTIATE_TEST_SUITE_P(Libraries, QuantizedFolder, ::testing::ValuesIn(kFolders),
                         [](const auto& info) { return std::string(info.param); });

std::string refusal(const arch::Architecture& architecture, const config::RunConfig& run) {
  try {
    arch::refuse_training_codes(arch::resolve(run, architecture));
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

TEST(QuantizedFolders, decide_how_the_base_is_stored) {
  const arch::Architecture architecture = architecture_of(weights::ModelFolder(kRoot + "nf4"));
  config::RunConfig run;
  run.method = config::Method::kLora;
  EXPECT_EQ(refusal(architecture, run), "");
  EXPECT_EQ(arch::resolve(run, architecture).settings.base_scheme, quant::Scheme::kNf4);
  run.load_in_4bit = true;
  EXPECT_EQ(refusal(architecture, run), "") << "the same";
  run.bnb_4bit_use_double_quant = true;
  EXPECT_THAT(refusal(architecture, run), HasSubstr("folder stores its projections in NF4"));
  run.load_in_4bit = run.bnb_4bit_use_double_quant = false;
  run.load_in_8bit = true;
  EXPECT_THAT(refusal(architecture, run), HasSubstr("remove load_in_8bit"));
}

TEST(QuantizedFolders, are_not_trained) {
  const arch::Architecture architecture = architecture_of(weights::ModelFolder(kRoot + "int8"));
  config::RunConfig run;
  EXPECT_THAT(refusal(architecture, run), HasSubstr("set method: lora"));
  run.method = config::Method::kLora;
  run.target_modules = {"q_proj"};
  run.modules_to_save = {"embed_tokens"};
  EXPECT_EQ(refusal(architecture, run), "");
  run.modules_to_save = {"up_proj"};
  EXPECT_THAT(refusal(architecture, run), HasSubstr("model.layers.0.mlp.up_proj.weight"));
  run.modules_to_save = {};
  run.random_init = true;
  EXPECT_THAT(refusal(architecture, run), HasSubstr("remove random_init"));
}

TEST(QuantizedFolders, have_the_largest_group_that_fits) {
  arch::Architecture architecture = architecture_of(weights::ModelFolder(kRoot + "plain"));
  EXPECT_EQ(arch::int4_scheme(architecture), quant::Scheme::kInt4Group64);
  architecture.hidden_size = 128;
  int64_t& inner = architecture.layers.at(0).feed_forward.width;  // there is one
  inner = 128;
  architecture.layers.at(0).attention().head_dim = 64;
  EXPECT_EQ(arch::int4_scheme(architecture), quant::Scheme::kInt4Group128);
  inner = 192;
  EXPECT_EQ(arch::int4_scheme(architecture), quant::Scheme::kInt4Group64);
  inner = 160;
  EXPECT_EQ(arch::int4_scheme(architecture), quant::Scheme::kInt4Group32);
  inner = 688;  // the shipped model's
  EXPECT_EQ(arch::int4_scheme(architecture), quant::Scheme::kInt4Group16);
  inner = 100;
  try {
    arch::int4_scheme(architecture);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("of 16 numbers at least, but model.layers.0.mlp.down_proj.weight has rows of 100"));
  }
}

}  // namespace
}  // namespace fathom::model
