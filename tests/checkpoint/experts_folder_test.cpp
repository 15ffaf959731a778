// Folders of models with experts: read in either spelling, refused by the name of what is wrong, written as
// transformers writes them.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/model_files.h"
#include "tests/model/golden.h"

namespace fathom::checkpoint {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;
using Tensors = std::map<std::string, at::Tensor>;

class ExpertsFolder : public ::testing::TestWithParam<const char*> {
 protected:
  ExpertsFolder() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    fs::copy(golden_.folder.path() / "config.json", folder_ / "config.json");
    tensors_ = tensors_of(golden_.folder);
  }
  ~ExpertsFolder() override { fs::remove_all(folder_); }

  static Tensors tensors_of(const weights::ModelFolder& folder) {
    Tensors tensors;
    for (const std::string& name : folder.names()) {
      const auto entry = folder.find(name);
      tensors[name] =
          at::from_blob(const_cast<std::byte*>(entry->data()), entry->info->shape, ops::scalar_type(entry->info->dtype))
              .clone();
    }
    return tensors;
  }
  void save() const {
    NamedTensors named(tensors_.begin(), tensors_.end());
    weights::write_safetensors(folder_ / "model.safetensors", tensor_sources(named));
  }
  std::string refusal() const {
    save();
    model::Decoder model(golden_.architecture, {});
    try {
      model.load(weights::ModelFolder(folder_), 1);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // Of one expert, or of all of a layer's, as Granite stores them.
  static bool is_of_experts(const std::string& name) {
    return name.find(".experts.") != std::string::npos || name.ends_with("put_linear.weight");
  }
  // Of the last expert of the last layer.
  std::string last_expert() const {
    std::string last;
    for (const auto& [name, tensor] : tensors_) {
      if (is_of_experts(name)) last = name;
    }
    return last;
  }

  const model::Golden golden_{GetParam()};
  const fs::path folder_ = fs::temp_directory_path() / ("fathom_experts_" + std::to_string(::getpid()));
  Tensors tensors_;
};

TEST_P(ExpertsFolder, names_what_is_missing_left_over_or_of_another_shape) {
  const std::string name = last_expert();
  ASSERT_FALSE(name.empty());
  const at::Tensor tensor = tensors_.at(name);
  tensors_.erase(name);
  EXPECT_THAT(refusal(), HasSubstr("there is no tensor " + name));
  tensors_[name] = tensor.narrow(0, 1, tensor.size(0) - 1).contiguous();
  EXPECT_THAT(refusal(), HasSubstr(name + " is ["));
  tensors_[name] = tensor;
  const std::string more = name.substr(0, name.find_first_of("0123456789")) + "0.mlp.experts.99.down_proj.weight";
  tensors_[more] = tensor;
  EXPECT_THAT(refusal(), HasSubstr("tensor " + more + " has no place"));
}

class EitherSpelling : public ExpertsFolder {};

TEST_P(EitherSpelling, is_read_where_experts_are_stacked) {
  model::Decoder plain(golden_.architecture, {});
  plain.load(golden_.folder, 1);
  std::erase_if(tensors_, [](const auto& each) {
    return is_of_experts(each.first) || each.first.ends_with(".gate.weight") ||
           each.first.ends_with("router.layer.weight");
  });
  for (const model::Parameter& parameter : plain.parameters()) {
    const bool routes = parameter.name.ends_with(".mlp.gate.weight") || parameter.name.ends_with(".router.weight");
    if (routes) tensors_[parameter.name] = parameter.tensor.detach().clone();
    if (parameter.name.find(".experts.") == std::string::npos) continue;
    const int64_t count = golden_.architecture.experts()->count;
    tensors_[parameter.name] = parameter.tensor.detach().clone().view({count, -1, parameter.tensor.size(1)});
  }
  save();
  model::Decoder stacked(golden_.architecture, {});
  stacked.load(weights::ModelFolder(folder_), 1);
  for (size_t i = 0; i < plain.parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(plain.parameters()[i].tensor, stacked.parameters()[i].tensor)) << plain.parameters()[i].name;
  }
}

TEST_P(ExpertsFolder, is_written_as_transformers_writes_it) {
  model::ModelOptions options;
  options.parameters.dtype = golden_.architecture.dtype;
  model::Decoder model(golden_.architecture, options);
  model.load(golden_.folder, 1);
  NamedTensors parameters;
  for (const model::Parameter& parameter : model.parameters())
    parameters.emplace_back(parameter.name, parameter.tensor);
  write_model(folder_ / "out", parameters, {golden_.folder.path(), std::nullopt});
  const Tensors written = tensors_of(weights::ModelFolder(folder_ / "out"));
  ASSERT_EQ(written.size(), tensors_.size());
  for (const auto& [name, tensor] : tensors_) {
    ASSERT_TRUE(written.contains(name)) << name;
    EXPECT_TRUE(at::equal(written.at(name), tensor)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Golden, ExpertsFolder,
                         ::testing::Values("qwen3_moe", "mixtral", "olmoe", "granite_moe", "gpt_oss", "qwen2_moe",
                                           "glm4_moe"),
                         [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Golden, EitherSpelling,
                         ::testing::Values("qwen3_moe", "mixtral", "olmoe", "granite_moe", "qwen2_moe", "qwen35_moe",
                                           "glm4_moe"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace fathom::checkpoint
