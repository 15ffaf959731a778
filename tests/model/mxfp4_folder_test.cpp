// A folder with experts in MXFP4, as gpt-oss's are published (scripts/golden/mxfp4.py): its logits, its codes as they
// are, what is trained beside them, and what such a folder refuses.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cstring>

#include "arch/read_folder.h"
#include "arch/run.h"
#include "arch/storage_schemes.h"
#include "base/error.h"
#include "model/decoder.h"
#include "weights/folder.h"

namespace fathom::model::mxfp4_folder_test {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = FATHOM_SOURCE_DIR "/tests/model/mxfp4";

class Mxfp4Folder : public ::testing::Test {
 protected:
  Decoder load(const std::optional<arch::LoraOptions>& lora = std::nullopt) const {
    ModelOptions options;
    options.parameters.base_scheme = arch::resolve({}, architecture_).settings.base_scheme;
    options.parameters.lora = lora;
    Decoder model(architecture_, options);
    model.load(folder_, 1);
    return model;
  }
  static at::Tensor expected(const char* tensor, at::ScalarType type) {
    const weights::SafetensorsFile file(kFolder + "/expected.safetensors");
    const weights::TensorInfo* info = file.find(tensor);
    return at::from_blob(const_cast<std::byte*>(file.data(*info)), info->shape, at::TensorOptions().dtype(type))
        .clone();
  }
  std::string refusal(const config::RunConfig& run) const {
    try {
      arch::refuse_training_codes(arch::resolve(run, architecture_));
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  const weights::ModelFolder folder_{kFolder};
  const arch::Architecture architecture_ = arch::read_architecture(folder_);
};

TEST_F(Mxfp4Folder, has_the_logits_of_transformers) {
  ASSERT_TRUE(architecture_.quantized);
  EXPECT_EQ(architecture_.quantized->scheme, quant::Scheme::kMxfp4);
  EXPECT_EQ(architecture_.dtype, DType::kBF16) << "as where config.json is silent";
  Decoder model = load();
  model.set_training(false);
  const at::NoGradGuard no_gradients;
  const at::Tensor logits = model.forward(expected("ids", at::kLong)), wanted = expected("logits", at::kFloat);
  EXPECT_LE(((logits - wanted).abs().max() / wanted.abs().max()).item<double>(), 1e-5);
}

TEST_F(Mxfp4Folder, keeps_its_codes) {
  const Decoder model = load();
  EXPECT_TRUE(model.trained_parameters().empty());
  size_t compared = 0;
  for (const Parameter& parameter : model.parameters()) {
    const auto blocks = folder_.find(parameter.name + "_blocks");
    if (!blocks) continue;
    ASSERT_EQ(parameter.tensor.nbytes(), static_cast<size_t>(blocks->info->bytes)) << parameter.name;
    EXPECT_EQ(std::memcmp(parameter.tensor.const_data_ptr(), blocks->data(), parameter.tensor.nbytes()), 0);
    ++compared;
  }
  EXPECT_EQ(compared, 4u);
}

TEST_F(Mxfp4Folder, lets_adapters_be_trained) {
  arch::LoraOptions lora{4, 16, 0, {"q_proj"}};
  lora.target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
  Decoder model = load(lora);
  model.set_training(true);
  {
    const at::NoGradGuard no_gradients;
    at::manual_seed(5);
    for (const Parameter& parameter : model.trained_parameters()) parameter.tensor.normal_(0, 0.1);
  }
  torch::autograd::backward({model.forward(expected("ids", at::kLong)).square().mean()}, {});
  // A and B of q_proj and of both stacks, in two layers.
  EXPECT_EQ(model.trained_parameters().size(), 12u);
  for (const Parameter& parameter : model.trained_parameters()) {
    EXPECT_GT(parameter.tensor.grad().abs().max().item<double>(), 0) << parameter.name;
  }
}

TEST_F(Mxfp4Folder, is_a_frozen_base) {
  config::RunConfig run;
  EXPECT_THAT(refusal(run), HasSubstr("set method: lora"));
  run.method = config::Method::kLora;
  run.target_modules = {"q_proj"};
  EXPECT_EQ(refusal(run), "");
  EXPECT_EQ(arch::resolve(run, architecture_).settings.base_scheme, quant::Scheme::kMxfp4);
  run.load_in_4bit = true;
  EXPECT_THAT(refusal(run), HasSubstr("remove load_in_4bit"));
}

}  // namespace
}  // namespace fathom::model::mxfp4_folder_test
