// Direct preference optimization by the whole loop: against TRL's trainer (scripts/golden/dpo.py), and against itself
// in other batches and after a stop.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "tests/train/small_run.h"
#include "train/reference.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Preferences : public testing::SmallRun {
 protected:
  Preferences() {
    const fs::path source = FATHOM_SOURCE_DIR;
    fs::remove_all(folder_ / "model");
    fs::copy(source / "tests/model/golden/wide_heads", folder_ / "model");
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"}) fs::copy(golden_ / name, folder_ / "model");
  }

  config::RunConfig config(const std::string& name) const {
    config::RunConfig config;
    config.model_name_or_path = (folder_ / "model").string();
    config.dtype = DType::kF32;
    config.train_file = {(golden_ / "preferences.jsonl").string()};
    config.output_dir = (folder_ / name).string();
    config.objective = config::Objective::kDpo;
    config.max_length = 40;
    config.per_device_train_batch_size = config.per_device_eval_batch_size = 2;
    config.gradient_accumulation_steps = 2;
    config.shuffle = false;
    config.max_steps = 3;
    config.learning_rate = 3e-3;
    config.lr_scheduler_type = config::Schedule::kConstant;
    config.logging_steps = 1;
    return config;
  }

  std::vector<StepReport> reports_of(const config::RunConfig& config, int64_t stop_after = -1) const {
    std::vector<StepReport> reports;
    run(config, stop_after, &reports);
    return reports;
  }

  const fs::path golden_ = fs::path(FATHOM_SOURCE_DIR) / "tests/train/golden/dpo";
};

double value_of(const report::StepMetrics& metrics, const std::string& name) {
  if (name == "loss") return metrics.loss;
  if (name == "grad_norm") return metrics.grad_norm;
  return report::number_of(metrics.more, name).value();
}

// Of differences, what is far from the larger of their terms.
double tolerance(const std::string& name, double expected, double logps) {
  const double of = name.starts_with("rewards/") ? std::abs(logps) : std::abs(expected);
  return 1e-4 * std::max(of, 1e-2);
}

TEST_F(Preferences, AreLearnedAsByTrl) {
  const Json runs = read_json(golden_ / "expected.json").at("runs");
  for (const auto& [name, expected] : runs.items()) {
    config::RunConfig config = this->config(name);
    for (const config::LossTypeRow& row : config::kLossTypes) {
      if (row.name == expected.at("loss_type")) config.loss_type = row.type;
    }
    config.beta = expected.at("beta");
    config.label_smoothing = expected.value("label_smoothing", 0.0);
    if (name.ends_with("_lora")) {
      config.method = config::Method::kLora;
      config.lora_r = 3;
      config.lora_alpha = 24;
      config.target_modules = {"q_proj", "o_proj", "up_proj"};
      config.adapter_name_or_path = (golden_ / "adapter").string();
    }
    const std::vector<StepReport> reports = reports_of(config);
    ASSERT_EQ(reports.size(), expected.at("steps").size());
    for (size_t step = 0; step < reports.size(); ++step) {
      const Json& golden = expected.at("steps").at(step);
      for (const auto& [key, value] : golden.items()) {
        if (step == 0 && key == "rewards/accuracies") continue;  // of two that are equal but for rounding
        const double allowed = tolerance(key, value, golden.at("logps/chosen").get<double>() * config.beta);
        EXPECT_NEAR(value_of(reports[step].metrics, key), value.get<double>(), step == 0 ? allowed / 10 : allowed)
            << name << ", step " << step + 1 << ": " << key;
      }
    }
  }
}

TEST_F(Preferences, OfAStepAreDividedInAnyWay) {
  std::vector<std::vector<StepReport>> ways;
  for (const auto& [rows, batches] : {std::pair(1, 4), std::pair(2, 2), std::pair(4, 1)}) {
    config::RunConfig config = this->config("divided-" + std::to_string(rows));
    config.per_device_train_batch_size = rows;
    config.gradient_accumulation_steps = batches;
    config.loss_type = config::LossType::kIpo;  // which knows the lengths
    ways.push_back(reports_of(config));
  }
  for (const std::vector<StepReport>& way : ways) {
    ASSERT_EQ(way.size(), 3U);
    for (size_t step = 0; step < way.size(); ++step) {
      const report::StepMetrics &expected = ways[0][step].metrics, &actual = way[step].metrics;
      for (const char* name : {"loss", "grad_norm", "logps/chosen", "logps/rejected"}) {
        EXPECT_NEAR(value_of(actual, name), value_of(expected, name), 1e-4 * std::abs(value_of(expected, name)))
            << name << ", step " << step + 1;
      }
    }
  }
}

TEST_F(Preferences, GoOnAfterAStopToTheSameBits) {
  config::RunConfig config = this->config("whole");
  config.validation_file = config.train_file;
  config.eval_strategy = config::Cadence::kSteps;
  config.eval_steps = 1;
  config.save_steps = 2;
  config.logging_steps = 3;
  std::vector<StepReport> whole, rest;
  std::vector<report::EvaluationMetrics> evaluations, later;
  run(config, -1, &whole, &evaluations);
  ASSERT_EQ(evaluations.size(), 3U);
  EXPECT_GT(report::number_of(evaluations.back().more, "eval_rewards/margins").value(), 0);

  config.output_dir = (folder_ / "stopped").string();
  config.resume_from_checkpoint = "auto";
  EXPECT_THROW(run(config, 3), testing::Stop);
  run(config, -1, &rest, &later);
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest.back().metrics.loss, whole.back().metrics.loss);
  EXPECT_EQ(rest.back().metrics.more, whole.back().metrics.more);
  EXPECT_EQ(later.back().eval_loss, evaluations.back().eval_loss);
  EXPECT_EQ(later.back().more, evaluations.back().more);

  const fs::path file = reference_file(config.output_dir);
  fs::remove_all(fs::path(config.output_dir) / "checkpoint-3");
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  write_file_atomically(file, bytes);
  const auto message = [&] {
    try {
      run(config);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(message(), HasSubstr("is damaged"));
  fs::remove(file);
  EXPECT_THAT(message(), HasSubstr("is missing"));
}

TEST(Reference, IsOfOneIdentity) {
  const fs::path file = fs::temp_directory_path() / ("fathom-reference-" + std::to_string(getpid()));
  const Reference reference{{-1.5F, -2.25F, 0.0F, -3e-38F}, {-7.0F, -8.0F}};
  const std::string identity = reference_identity({}, {"base", "train", "validation"});
  write_reference(file, identity, reference);
  const Reference read = read_reference(file, identity);
  EXPECT_EQ(read.train, reference.train);
  EXPECT_EQ(read.validation, reference.validation);
  EXPECT_THROW(read_reference(file, reference_identity({}, {"other", "train", "validation"})), Error);
  config::RunConfig in_16_bits;
  in_16_bits.bf16 = true;
  EXPECT_THROW(read_reference(file, reference_identity(in_16_bits, {"base", "train", "validation"})), Error);
  fs::remove(file);
}

}  // namespace
}  // namespace fathom::train
