// Direct preference optimization by the whole loop: against TRL's trainer (scripts/golden/dpo.py), and against itself
// in other batches and after a stop.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/file.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "train/reference.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
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

  // Of a resumed run, before its Trainer is made; "" where it may go on.
  static std::string refusal(const config::RunConfig& config) {
    try {
      find_resume(config, open_inputs(config), false);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
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
    const bool is_simpo = name == "simpo";  // whose logps TRL tells by token
    if (is_simpo) config.objective = config::Objective::kSimpo;
    config.simpo_gamma = expected.value("simpo_gamma", config.simpo_gamma);
    config.max_length = expected.value("max_length", config.max_length);
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
        if (step == 0 && key == "rewards/accuracies" && !is_simpo) continue;  // of two that are equal but for rounding
        if (is_simpo && key.starts_with("logps/")) continue;
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
}

TEST_F(Preferences, GoOnWithTheReferenceOfTheirRunAlone) {
  config::RunConfig other = this->config("other"), config = this->config("run");
  other.learning_rate = config.learning_rate / 2;
  other.model_name_or_path = (folder_ / "other_model").string();
  fs::copy(folder_ / "model", other.model_name_or_path);
  fs::remove(fs::path(other.model_name_or_path) / "model.safetensors");
  other.random_init = true;
  run(other);
  config.save_steps = 1;
  config.resume_from_checkpoint = "auto";
  EXPECT_THROW(run(config, 2), testing::Stop);

  const fs::path file = reference_file(config.output_dir);
  const std::string whole = read_file(file);
  fs::copy_file(reference_file(other.output_dir), file, fs::copy_options::overwrite_existing);
  EXPECT_THAT(refusal(config), AllOf(HasSubstr(file.string()), HasSubstr("is not the one of the run"),
                                     HasSubstr("copy reference.logps of that run beside the checkpoint")));
  std::string damaged = whole;
  damaged[damaged.size() / 2] ^= 1;
  write_file_atomically(file, damaged);
  EXPECT_THAT(refusal(config), HasSubstr("is damaged"));
  fs::remove(file);
  EXPECT_THAT(refusal(config), HasSubstr("is missing"));

  write_file_atomically(file, whole);
  config.resume_from_checkpoint = checkpoint::find_newest(config.output_dir)->folder().string();
  config.output_dir = (folder_ / "elsewhere").string();
  run(config);
  EXPECT_EQ(read_file(reference_file(config.output_dir)), whole);
  config.resume_from_checkpoint = "auto";
  EXPECT_EQ(refusal(config), "");
}

TEST_F(Preferences, GoOnWithoutValidationDataButNotWithOthers) {
  config::RunConfig config = this->config("run");
  config.validation_file = config.train_file;
  config.eval_strategy = config::Cadence::kSteps;
  config.eval_steps = 1;
  config.save_steps = 1;
  config.resume_from_checkpoint = "auto";
  EXPECT_THROW(run(config, 2), testing::Stop);

  config::RunConfig without = config;
  without.validation_file.clear();
  without.eval_strategy = config::Cadence::kNo;
  without.output_dir = (folder_ / "without").string();
  without.resume_from_checkpoint = checkpoint::find_newest(config.output_dir)->folder().string();
  std::vector<StepReport> rest, rest_without;
  run(without, -1, &rest_without);
  EXPECT_EQ(read_file(reference_file(without.output_dir)), read_file(reference_file(config.output_dir)));

  std::string lines = read_file(golden_ / "preferences.jsonl");
  write_file_atomically(folder_ / "others.jsonl", lines.substr(lines.find('\n') + 1));
  config::RunConfig with_others = config;
  with_others.validation_file = {(folder_ / "others.jsonl").string()};
  EXPECT_THAT(refusal(with_others), AllOf(HasSubstr("validation_file"), HasSubstr("put those back")));

  run(config, -1, &rest);
  EXPECT_EQ(rest_without.back().metrics.loss, rest.back().metrics.loss);
}

TEST_F(Preferences, StopForASignalWhileTheReferenceIsComputed) {
  config::RunConfig config = this->config("run");
  config.resume_from_checkpoint = "auto";
  const schedule::RunInputs inputs = open_inputs(config);
  Observer observer;
  observer.on_start = [] { raise(SIGTERM); };
  const auto signalled = [&](int64_t batch) {
    config.per_device_eval_batch_size = batch;
    Trainer trainer(arch::resolve(config, inputs.architecture), 2 * batch * inputs.longest_train,
                    {at::kCPU, &testing::cpu_ledger(), nullptr});
    return train::run(config, inputs, trainer, find_resume(config, inputs, false), observer);
  };
  const RunResult stopped = signalled(2);
  EXPECT_EQ(stopped.signal, SIGTERM);
  EXPECT_TRUE(stopped.nothing_saved);
  EXPECT_EQ(stopped.steps, 0);
  EXPECT_FALSE(fs::exists(reference_file(config.output_dir)));
  EXPECT_FALSE(checkpoint::find_newest(config.output_dir));

  const RunResult in_one_batch = signalled(12);  // whose end is that of the pass: a checkpoint before the first step
  EXPECT_EQ(in_one_batch.signal, SIGTERM);
  EXPECT_FALSE(in_one_batch.nothing_saved);
  EXPECT_EQ(checkpoint::find_newest(config.output_dir)->step(), 0);
  std::vector<StepReport> reports;
  run(config, -1, &reports);
  EXPECT_EQ(reports.size(), 3U);
}

TEST(Reference, ComesBackAsItWasWritten) {
  const fs::path file = fs::temp_directory_path() / ("fathom-reference-" + std::to_string(getpid()));
  const Reference reference{{-1.5F, -2.25F, 0.0F, -3e-38F}, {-7.0F, -8.0F}, "validation", ""};
  const std::string digest = write_reference(file, reference);
  const Reference read = read_reference(file, digest);
  EXPECT_EQ(read.train, reference.train);
  EXPECT_EQ(read.validation, reference.validation);
  EXPECT_EQ(read.validation_data, reference.validation_data);
  EXPECT_EQ(read.digest, digest);
  EXPECT_EQ(digest, write_reference(file, read));
  EXPECT_THROW(read_reference(file, ""), Error);
  fs::remove(file);
}

}  // namespace
}  // namespace fathom::train
