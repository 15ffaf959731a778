// Adapters that PEFT saved (scripts/golden/adapters.py), plain, rank-stabilised and with modules_to_save: the same
// logits, loss, gradients and training from them here, and the same files when they are saved again.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "arch/parameter_table.h"
#include "base/error.h"
#include "base/json_value.h"
#include "checkpoint/adapter.h"
#include "checkpoint/export.h"
#include "checkpoint/model_files.h"
#include "optim/adamw.h"
#include "optim/gradient_norm.h"
#include "tests/model/golden.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr double kTolerance = 1e-4;  // as of the families: sums in another order

at::Tensor tensor_of(const weights::SafetensorsFile& file, const weights::TensorInfo& info) {
  return at::from_blob(const_cast<std::byte*>(file.data(info)), info.shape, ops::scalar_type(info.dtype)).clone();
}

std::map<std::string, at::Tensor> tensors_of(const fs::path& path) {
  const weights::SafetensorsFile file(path);
  std::map<std::string, at::Tensor> tensors;
  for (const weights::TensorInfo& info : file.tensors()) tensors[info.name] = tensor_of(file, info);
  return tensors;
}

class PeftAdapter : public ::testing::TestWithParam<const char*> {
 protected:
  PeftAdapter() {
    fs::remove_all(scratch_);
    fs::create_directories(scratch_);
    settings_ = with_adapter({}, folder_);
  }
  ~PeftAdapter() override { fs::remove_all(scratch_); }

  model::Decoder load(const fs::path& adapter, bool checkpointing = false) const {
    model::ModelOptions options;
    options.gradient_checkpointing = checkpointing;
    options.parameters.lora = arch::LoraOptions{
        settings_.lora_r,     settings_.lora_alpha,      settings_.lora_dropout,     settings_.target_modules,
        settings_.use_rslora, settings_.modules_to_save, settings_.target_parameters};
    model::Decoder model(base_.architecture, options);
    model.load(base_.folder, 1);
    load_adapter(adapter, model);
    model.set_training(true);
    return model;
  }
  at::Tensor loss(model::Decoder& model, int64_t chunk_rows) const {
    const at::Tensor targets_T = targets_BS_.view({-1});
    const auto count = (targets_T != ops::kIgnoredTarget).sum().item<double>();
    ops::LossTargets targets{{}, targets_T, count, chunk_rows};
    if (chunk_rows > 0) {
      targets.rows_N = (targets_T != ops::kIgnoredTarget).nonzero().view({-1});
      targets.targets_N = targets_T.index_select(0, targets.rows_N);
    }
    return model.loss(ids_BS_, targets);
  }
  static at::Tensor integers(const Json& rows) {
    std::vector<int64_t> flat;
    for (const Json& row : rows) {
      for (const Json& value : row) flat.push_back(value.get<int64_t>());
    }
    return at::tensor(flat, at::kLong).view({static_cast<int64_t>(rows.size()), -1});
  }

  const fs::path folder_ = fs::path(FATHOM_SOURCE_DIR) / "tests/checkpoint/golden" / GetParam();
  const fs::path scratch_ = fs::temp_directory_path() / ("fathom_peft_" + std::to_string(::getpid()));
  const Json expected_ = read_json(folder_ / "expected.json");
  const std::map<std::string, at::Tensor> tensors_ = tensors_of(folder_ / "expected.safetensors");
  const at::Tensor ids_BS_ = integers(expected_["ids"]), targets_BS_ = integers(expected_["targets"]);
  const model::Golden base_{expected_["base"].get<std::string>()};
  config::RunConfig settings_;
};

TEST_P(PeftAdapter, logits_and_loss_are_its) {
  model::Decoder model = load(folder_);
  const at::NoGradGuard no_gradients;
  model.set_training(false);
  const at::Tensor& expected = tensors_.at("logits");
  const at::Tensor difference = (model.forward(ids_BS_) - expected).abs().max() / expected.abs().max();
  EXPECT_LE(difference.item<double>(), kTolerance);
  for (const int64_t chunk_rows : {0, 7}) {
    EXPECT_NEAR(loss(model, chunk_rows).item<double>(), expected_["losses"][0].get<double>(), kTolerance);
  }
}

TEST_P(PeftAdapter, gradients_are_its) {
  for (const bool checkpointing : {false, true}) {
    model::Decoder model = load(folder_, checkpointing);
    torch::autograd::backward({loss(model, 7)}, {});
    const std::map<std::string, at::Tensor> gradients = model::gradients_of(model);
    EXPECT_EQ(gradients.size() + 1, tensors_.size()) << "beside the logits";
    for (const auto& [name, gradient] : gradients) {
      ASSERT_TRUE(tensors_.contains("gradient." + name)) << name;
      ASSERT_TRUE(gradient.defined()) << name;
      EXPECT_LE(model::relative_difference(gradient, tensors_.at("gradient." + name)), kTolerance) << name;
    }
    for (const model::Parameter& parameter : model.parameters()) {
      EXPECT_TRUE(parameter.trained || !parameter.tensor.grad().defined()) << parameter.name;
    }
  }
}

TEST_P(PeftAdapter, training_goes_on_as_there) {
  model::Decoder model = load(folder_);
  std::vector<optim::OptimizedParameter> parameters;
  for (const model::Parameter& p : model.trained_parameters()) parameters.push_back({p.name, p.tensor, p.decays});
  optim::AdamWOptions options;
  options.weight_decay = 0.01;
  optim::AdamW optimizer(parameters, options, nullptr);
  const auto expected = expected_["losses"].get<std::vector<double>>();
  ASSERT_EQ(expected.size(), 10u);
  for (size_t step = 0; step < expected.size(); ++step) {
    const at::Tensor value = loss(model, 5);
    EXPECT_NEAR(value.item<double>(), expected[step], kTolerance) << "step " << step + 1;
    torch::autograd::backward({value}, {});
    std::vector<at::Tensor> gradients;
    for (const auto& parameter : parameters) gradients.push_back(parameter.tensor.grad());
    optimizer.step(1e-3, optim::gradient_norm(gradients, 1).factor);
    for (const auto& parameter : parameters) parameter.tensor.mutable_grad().reset();
  }
}

// What PEFT would read back: its own tensors under its own names, and settings that mean the same.
TEST_P(PeftAdapter, is_saved_as_it_came) {
  const model::Decoder model = load(folder_);
  NamedTensors parameters;
  for (const model::Parameter& p : model.trained_parameters()) parameters.emplace_back(p.name, p.tensor);
  write_model(scratch_ / "again", parameters, {base_.folder.path(), model.options().parameters.lora, "org/base"});
  const std::map<std::string, at::Tensor> theirs = tensors_of(folder_ / "adapter_model.safetensors");
  const std::map<std::string, at::Tensor> ours = tensors_of(scratch_ / "again/adapter_model.safetensors");
  ASSERT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_TRUE(at::equal(ours.at(name), tensor)) << name;
  }
  const Json their_config = read_json(folder_ / "adapter_config.json");
  const Json our_config = read_json(scratch_ / "again/adapter_config.json");
  for (const char* key :
       {"r", "lora_alpha", "use_rslora", "ensure_weight_tying", "modules_to_save", "task_type", "fan_in_fan_out"}) {
    EXPECT_EQ(our_config[key], their_config[key]) << key;
  }
  EXPECT_EQ(our_config["base_model_name_or_path"], "org/base");
  if (their_config["target_modules"].is_string()) {
    EXPECT_EQ(our_config["target_modules"], their_config["target_modules"]);
  }
  const auto again = arch::resolve(with_adapter({}, scratch_ / "again"), base_.architecture).parameters;
  for (const arch::ParameterRow& row : arch::resolve(settings_, base_.architecture).parameters.rows) {
    EXPECT_EQ(again.trains(row.spec.name), row.trained) << row.spec.name;
  }
}

TEST_P(PeftAdapter, merged_into_its_base_computes_the_same) {
  ExportRequest request;
  request.source = folder_;
  request.out = scratch_ / "merged";
  request.merge = true;
  request.base = scratch_ / "base";
  // In FP32, so that merging rounds nothing away.
  std::vector<std::pair<std::string, at::Tensor>> base;
  model::Decoder plain(base_.architecture, {});
  plain.load(base_.folder, 1);
  for (const model::Parameter& p : plain.parameters()) base.emplace_back(p.name, p.tensor.detach());
  write_model(request.base, base, {base_.folder.path(), std::nullopt});
  export_model(request);

  const weights::ModelFolder merged(request.out);
  model::Decoder model(arch::parse_architecture(merged.config(), "merged"), {});
  model.load(merged, 1);
  const at::NoGradGuard no_gradients;
  const at::Tensor& expected = tensors_.at("logits");
  const at::Tensor difference = (model.forward(ids_BS_) - expected).abs().max() / expected.abs().max();
  EXPECT_LE(difference.item<double>(), kTolerance);
}

INSTANTIATE_TEST_SUITE_P(Golden, PeftAdapter,
                         ::testing::Values("plain", "rank_stabilised", "whole_vocabulary", "whole_projections",
                                           "whole_tied", "experts", "experts_of_mixtral", "down_alone",
                                           "experts_of_granite", "experts_of_gpt_oss", "transposed", "pattern"),
                         [](const auto& info) { return info.param; });

class TiedApart : public PeftAdapter {};

// Without ensure_weight_tying PEFT trains a copy of the embedding and leaves the head as it was.
TEST_P(TiedApart, is_refused) {
  fs::copy(folder_, scratch_ / "apart");
  Json config = read_json(folder_ / "adapter_config.json");
  config["ensure_weight_tying"] = false;
  std::ofstream(scratch_ / "apart/adapter_config.json") << config.dump();
  try {
    load(scratch_ / "apart");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("without ensure_weight_tying: they were trained apart"));
  }
  ExportRequest request;
  request.source = scratch_ / "apart";
  request.out = scratch_ / "merged";
  request.merge = true;
  request.base = base_.folder.path();
  EXPECT_THROW(export_model(request), Error);
  EXPECT_FALSE(fs::exists(request.out));
}

INSTANTIATE_TEST_SUITE_P(Golden, TiedApart, ::testing::Values("whole_tied"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fathom::checkpoint
