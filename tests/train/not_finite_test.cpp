// An update that makes weights NaN or infinite ends the run before anything of them is saved or shown, whatever trains
// and whatever is trained.
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "train/inputs.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class NotFinite : public testing::SmallRun {
 protected:
  // Its first update with a rate above 0 takes every weight beyond FP32: rate * weight_decay does.
  config::RunConfig exploding(const std::string& name) const {
    config::RunConfig config = this->config(name);
    config.learning_rate = 3e38;
    config.weight_decay = 10;
    config.lr_scheduler_type = config::Schedule::kConstant;
    config.eval_strategy = config::Cadence::kNo;
    config.save_strategy = config::Cadence::kNo;
    config.max_steps = 1;
    return config;
  }

  std::string failure(const config::RunConfig& config) const {
    try {
      run(config);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }

  static bool holds_weights(const fs::path& folder) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".safetensors") return true;
    }
    return false;
  }
};

TEST_F(NotFinite, NoLastUpdateIsKept) {
  using config::RunConfig;
  const auto lora = [](RunConfig& run) {
    run.method = config::Method::kLora;
    run.dtype = DType::kF32;
  };
  const std::pair<const char*, std::function<void(RunConfig&)>> kinds[] = {
      {"adamw", [](RunConfig&) {}},
      {"adamw_8bit", [](RunConfig& run) { run.optim = config::Optimizer::kAdamW8bit; }},
      {"adamw_bf16", [](RunConfig& run) { run.optim = config::Optimizer::kAdamWBf16; }},
      {"adafactor", [](RunConfig& run) { run.optim = config::Optimizer::kAdafactor; }},
      {"lion", [](RunConfig& run) { run.optim = config::Optimizer::kLion; }},
      {"sgd", [](RunConfig& run) { run.optim = config::Optimizer::kSgd; }},
      {"bfloat16", [](RunConfig& run) { run.dtype = DType::kBF16; }},
      {"masters",
       [](RunConfig& run) {
         run.dtype = DType::kBF16;
         run.master_weights = config::MasterWeights::kFp32;
       }},
      {"stochastic",
       [](RunConfig& run) {
         run.dtype = DType::kBF16;
         run.master_weights = config::MasterWeights::kStochastic;
       }},
      {"fp16", [](RunConfig& run) { run.fp16 = true; }},
      {"qat", [](RunConfig& run) { run.qat = config::Qat::kInt8; }},
      {"lora", lora},
      {"lora over NF4",
       [&](RunConfig& run) {
         lora(run);
         run.load_in_4bit = true;
       }},
      {"lora and embeddings",
       [&](RunConfig& run) {
         lora(run);
         run.modules_to_save = {"embed_tokens"};
       }},
  };
  for (const auto& [name, change] : kinds) {
    RunConfig config = exploding(name);
    change(config);
    if (config.fp16) config.max_steps = 17;  // once a scale was found
    EXPECT_THAT(failure(config), AllOf(HasSubstr("not finite"), HasSubstr("learning_rate"))) << name;
    EXPECT_FALSE(holds_weights(config.output_dir)) << name;
  }
}

TEST_F(NotFinite, NoCheckpointIsMadeOfItAndTheOneBeforeStays) {
  for (const bool background : {true, false}) {
    config::RunConfig config = exploding(background ? "background" : "foreground");
    config.save_in_background = background;
    config.lr_scheduler_type = config::Schedule::kConstantWithWarmup;
    config.warmup_steps = 2;  // the first step's rate is 0
    config.max_steps = 4;
    config.save_strategy = config::Cadence::kSteps;
    config.save_steps = config.save_total_limit = 1;
    EXPECT_THAT(failure(config), HasSubstr("not finite"));
    EXPECT_FALSE(fs::exists(fs::path(config.output_dir) / "checkpoint-2"));
    EXPECT_EQ(checkpoint::find_newest(config.output_dir)->step(), 1);
    config.resume_from_checkpoint = "auto";
    EXPECT_THAT(failure(config), HasSubstr("not finite")) << "and it can be gone on from";
  }
}

TEST_F(NotFinite, NoEvaluationIsShownOfIt) {
  config::RunConfig config = exploding("evaluated");
  config.eval_strategy = config::Cadence::kEpoch;
  config.load_best_model_at_end = true;
  std::vector<report::EvaluationMetrics> evaluations;
  try {
    run(config, -1, nullptr, &evaluations);
    FAIL() << "it went through";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("after step 1 the weights of model.embed_tokens.weight are not finite"));
  }
  EXPECT_TRUE(evaluations.empty());
  EXPECT_FALSE(holds_weights(config.output_dir));
}

TEST_F(NotFinite, ASignalSavesNoneOfIt) {
  config::RunConfig config = exploding("signalled");
  config.max_steps = 2;
  EXPECT_THROW(run_until_signal(config, 1), Error);
  EXPECT_FALSE(holds_weights(config.output_dir));
}

// FP16 that overflows in every step, however small the scale, within fewer steps than it takes to find that out.
TEST_F(NotFinite, ARunThatTrainedNothingFails) {
  config::RunConfig config = this->config("overflow");
  config.fp16 = true;
  config.eval_strategy = config::Cadence::kNo;
  config.max_steps = 3;
  Json model = read_json(folder_ / "model" / "config.json");
  model["initializer_range"] = 300;
  std::ofstream(folder_ / "model" / "config.json") << model.dump();
  EXPECT_THAT(failure(config), AllOf(HasSubstr("3 of 3 steps were skipped"), HasSubstr("bf16: true")));
  EXPECT_FALSE(fs::exists(fs::path(config.output_dir) / "model.safetensors"));
}

// Gate and up grow beyond FP16's range after the first step: its update stays the only one.
TEST_F(NotFinite, ARunThatEndsOnSkippedStepsFailsAndSoDoesOneThatGoesOnFromItsEnd) {
  config::RunConfig config = this->config("grown");
  config.fp16 = true;
  config.eval_strategy = config::Cadence::kNo;
  config.max_steps = config.save_steps = 6;
  config.resume_from_checkpoint = "auto";
  const auto grow = [](Trainer& trainer) {
    const at::NoGradGuard no_gradients;
    for (const model::Parameter& parameter : trainer.model().parameters()) {
      if (parameter.name.find("mlp") != std::string::npos) parameter.tensor.mul_(1e5);
    }
  };
  for (const bool resumed : {false, true}) {
    const schedule::RunInputs inputs = open_inputs(config);
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &testing::cpu_ledger(), nullptr});
    Observer observer;
    observer.on_step = [&](const StepReport& report) {
      EXPECT_FALSE(resumed) << "no step was left";
      if (report.metrics.step == 1) grow(trainer);
    };
    try {
      train::run(config, inputs, trainer, find_resume(config, inputs, false), observer);
      ADD_FAILURE() << "it wrote a model";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("5 of 6 steps were skipped"), HasSubstr("bf16: true")));
    }
    EXPECT_FALSE(fs::exists(fs::path(config.output_dir) / "model.safetensors"));
  }
}

TEST_F(NotFinite, NoRemedyNamesWhatIsSet) {
  const auto remedy = [&](const std::string& name, double norm, bool bf16) {
    config::RunConfig config = exploding(name);
    config.max_grad_norm = norm;
    config.bf16 = bf16;
    return failure(config);
  };
  EXPECT_THAT(remedy("plain", 0, false), HasSubstr("; lower learning_rate, or set max_grad_norm; checkpoints"));
  EXPECT_THAT(remedy("clipped", 1, false), HasSubstr("; lower learning_rate or max_grad_norm; checkpoints"));
  EXPECT_THAT(remedy("bf16", 1, true), HasSubstr("; lower learning_rate or max_grad_norm, or train in float32;"));
}

}  // namespace
}  // namespace fathom::train
