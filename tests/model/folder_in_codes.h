// A small folder that was published in codes, loaded as a frozen base, beside what transformers has of it.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <optional>
#include <string>

#include "arch/read_folder.h"
#include "arch/run.h"
#include "arch/storage_schemes.h"
#include "base/error.h"
#include "model/decoder.h"
#include "weights/folder.h"

namespace fathom::model {

class FolderInCodes {
 public:
  // name: of a folder of tests/model.
  explicit FolderInCodes(const std::string& name)
      : folder_(FATHOM_SOURCE_DIR "/tests/model/" + name), architecture_(arch::read_architecture(folder_)) {}

  const weights::ModelFolder& folder() const { return folder_; }
  const arch::Architecture& architecture() const { return architecture_; }
  Decoder load(const std::optional<arch::LoraOptions>& lora = std::nullopt) const {
    ModelOptions options;
    options.parameters.base_scheme = arch::resolve({}, architecture_).settings.base_scheme;
    options.parameters.lora = lora;
    Decoder model(architecture_, options);
    model.load(folder_, 1);
    return model;
  }
  at::Tensor expected(const char* tensor, at::ScalarType type) const {
    const weights::SafetensorsFile file(folder_.path() / "expected.safetensors");
    const weights::TensorInfo* info = file.find(tensor);
    return at::from_blob(const_cast<std::byte*>(file.data(*info)), info->shape, at::TensorOptions().dtype(type))
        .clone();
  }
  // Why it is no base of such a run; empty: it is one.
  std::string refusal(const config::RunConfig& run) const {
    try {
      arch::refuse_training_codes(arch::resolve(run, architecture_));
      return "";
    } catch (const UsageError& error) {
      return error.what();
    }
  }

  void expect_logits_of_transformers() const {
    Decoder model = load();
    model.set_training(false);
    const at::NoGradGuard no_gradients;
    const at::Tensor logits = model.forward(expected("ids", at::kLong)), wanted = expected("logits", at::kFloat);
    EXPECT_LE(((logits - wanted).abs().max() / wanted.abs().max()).item<double>(), 1e-5);
  }
  // Each of so many parameters of adapters, on queries and on experts where there are some, gets a gradient.
  void expect_adapters_trained(size_t parameters) const {
    arch::LoraOptions lora{4, 16, 0, {"q_proj"}};
    if (architecture_.experts() != nullptr) lora.target_parameters = {"experts.gate_up_proj", "experts.down_proj"};
    Decoder model = load(lora);
    model.set_training(true);
    {
      const at::NoGradGuard no_gradients;
      at::manual_seed(5);
      for (const Parameter& parameter : model.trained_parameters()) parameter.tensor.normal_(0, 0.1);
    }
    torch::autograd::backward({model.forward(expected("ids", at::kLong)).square().mean()}, {});
    EXPECT_EQ(model.trained_parameters().size(), parameters);
    for (const Parameter& parameter : model.trained_parameters()) {
      EXPECT_GT(parameter.tensor.grad().abs().max().item<double>(), 0) << parameter.name;
    }
  }

 private:
  weights::ModelFolder folder_;
  arch::Architecture architecture_;
};

}  // namespace fathom::model
