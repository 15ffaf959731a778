// Training that continues from a PEFT folder.
#include "checkpoint/adapter.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/hash.h"
#include "tests/train/small_run.h"

namespace fathom::train {
namespace {

using ::testing::HasSubstr;

class AdapterTest : public testing::SmallRun {
 protected:
  config::RunConfig lora(const std::string& name) const {
    config::RunConfig config = this->config(name);
    config.method = config::Method::kLora;
    config.dtype = DType::kF32;
    config.lora_r = 4;
    config.use_rslora = true;
    config.target_modules = {"o_proj", "layers.1.mlp.up_proj"};
    config.eval_steps = 4;
    config.max_steps = 4;
    return config;
  }
};

TEST_F(AdapterTest, training_goes_on_where_the_adapter_was) {
  const config::RunConfig first = lora("first");
  std::vector<EvaluationReport> evaluations;
  run(first, -1, nullptr, &evaluations);
  config::RunConfig second = lora("second");
  second.adapter_name_or_path = first.output_dir;
  second.target_modules = {"layers.1.mlp.up_proj", "o_proj"};  // the order does not matter
  second.eval_on_start = true;
  second.learning_rate = 0;
  std::vector<EvaluationReport> continued;
  run(second, -1, nullptr, &continued);
  EXPECT_EQ(continued.front().loss, evaluations.back().loss);
  const auto hash = [](const config::RunConfig& config) {
    return hash_file(std::filesystem::path(config.output_dir) / "adapter_model.safetensors");
  };
  EXPECT_EQ(hash(second), hash(first)) << "nothing learned at a rate of 0";
  const Json written = read_json(std::filesystem::path(second.output_dir) / "adapter_config.json");
  EXPECT_EQ(written["use_rslora"], true);
}

TEST_F(AdapterTest, other_settings_are_refused_by_name) {
  const config::RunConfig first = lora("first");
  run(first);
  config::RunConfig second = lora("second");
  second.adapter_name_or_path = first.output_dir;
  second.lora_r = 8;
  second.use_rslora = false;
  second.target_modules = {"o_proj"};
  try {
    open_inputs(second);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("set lora_r: 4, use_rslora: true, target_modules: ["));
  }
  second.adapter_name_or_path = (folder_ / "nowhere").string();
  EXPECT_THROW(open_inputs(second), Error);
}

}  // namespace
}  // namespace fathom::train
