// Training that continues from a PEFT folder.
#include "checkpoint/adapter.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "weights/safetensors.h"

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
  std::vector<report::EvaluationMetrics> evaluations;
  run(first, -1, nullptr, &evaluations);
  config::RunConfig second = lora("second");
  second.adapter_name_or_path = first.output_dir;
  second.target_modules = {"layers.1.mlp.up_proj", "o_proj"};  // the order does not matter
  second.eval_on_start = true;
  second.learning_rate = 0;
  std::vector<report::EvaluationMetrics> continued;
  run(second, -1, nullptr, &continued);
  EXPECT_EQ(continued.front().eval_loss, evaluations.back().eval_loss);
  const auto hash = [](const config::RunConfig& config) {
    return hash_file(std::filesystem::path(config.output_dir) / "adapter_model.safetensors");
  };
  EXPECT_EQ(hash(second), hash(first)) << "nothing learned at a rate of 0";
  const Json written = read_json(std::filesystem::path(second.output_dir) / "adapter_config.json");
  EXPECT_EQ(written["use_rslora"], true);
}

TEST_F(AdapterTest, a_resumed_run_needs_the_adapter_no_more) {
  config::RunConfig first = lora("first");
  run(first);
  config::RunConfig second = lora("second");
  second.adapter_name_or_path = first.output_dir;
  EXPECT_THROW(run(second, 4), testing::Stop);
  std::filesystem::remove_all(first.output_dir);
  second.resume_from_checkpoint = "auto";
  EXPECT_EQ(run(second).steps, 4);
  std::filesystem::remove_all(second.output_dir);
  EXPECT_THROW(run(second), Error) << "nothing to resume: the adapter is where it starts";
}

// What is trained whole is saved, found again after a stop, and taken over by the next run, as adapters are.
TEST_F(AdapterTest, modules_to_save_go_along) {
  const auto hash = [](const config::RunConfig& config) {
    return hash_file(std::filesystem::path(config.output_dir) / "adapter_model.safetensors");
  };
  const auto configure = [&](const std::string& name) {
    config::RunConfig config = lora(name);
    config.dtype = DType::kBF16;
    config.modules_to_save = {"embed_tokens", "lm_head", "layers.1.input_layernorm", "k_proj"};
    config.lora_dropout = 0.2;
    config.max_steps = 7;
    return config;
  };
  const config::RunConfig whole = configure("whole");
  std::vector<report::EvaluationMetrics> evaluations;
  run(whole, -1, nullptr, &evaluations);
  config::RunConfig stopped = configure("stopped");
  stopped.resume_from_checkpoint = "auto";
  EXPECT_THROW(run(stopped, 5), testing::Stop);
  run(stopped);
  EXPECT_EQ(hash(stopped), hash(whole));

  config::RunConfig next = configure("next");
  next.adapter_name_or_path = whole.output_dir;
  next.learning_rate = 0;
  run(next);
  EXPECT_EQ(hash(next), hash(whole)) << "nothing learned at a rate of 0";
  next = configure("other");
  next.adapter_name_or_path = whole.output_dir;
  next.modules_to_save = {"embed_tokens"};
  try {
    open_inputs(next);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("set modules_to_save: [embed_tokens, lm_head, layers.1.input_layernorm, k_proj]"));
  }
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

std::string refusal(const config::RunConfig& config) {
  try {
    open_inputs(config);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// What is in the file is known from its header: nothing is left to find out after the plan.
TEST_F(AdapterTest, weights_that_do_not_fit_are_refused_before_anything_is_planned) {
  const config::RunConfig first = lora("first");
  run(first);
  config::RunConfig second = lora("second");
  second.adapter_name_or_path = first.output_dir;
  EXPECT_EQ(refusal(second), "");
  second.qat = config::Qat::kInt8;
  EXPECT_THAT(refusal(second), HasSubstr("model.layers.0.self_attn.q_proj.int8_log_steps"));
  second.resume_from_checkpoint = "auto";
  EXPECT_THROW(find_resume(second, open_inputs(second), false), Error) << "nothing to resume: the adapter is read";
  second.resume_from_checkpoint = "";
  config::RunConfig rounded = lora("rounded");
  rounded.qat = config::Qat::kInt8;
  run(rounded);
  second.adapter_name_or_path = rounded.output_dir;
  EXPECT_EQ(refusal(second), "");
  second.qat = config::Qat::kNone;
  EXPECT_THAT(refusal(second), HasSubstr("set qat to the type in its name"));

  second.adapter_name_or_path = first.output_dir;
  const std::filesystem::path weights = std::filesystem::path(first.output_dir) / "adapter_model.safetensors";
  weights::write_safetensors(weights, {});
  EXPECT_THAT(refusal(second), HasSubstr("holds no tensor for"));
  std::filesystem::remove(weights);
  EXPECT_NE(refusal(second), "");
  EXPECT_NO_THROW(open_inputs(second, /*weights_required=*/false)) << "of a plan, which needs no weights";
}

}  // namespace
}  // namespace fathom::train
