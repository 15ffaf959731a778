// Runs of the whole loop over a tiny decoder and a file of random ids.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/train/tiny.h"
#include "train/inputs.h"
#include "train/loop.h"

namespace fathom::train::testing {

struct Stop {};

// A folder with a model and data, and runs on them; everything goes with the test.
class SmallRun : public ::testing::Test {
 protected:
  SmallRun() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "model");
    std::ofstream(folder_ / "model" / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "vocab_size": 67, "hidden_size": 16, "intermediate_size": 36, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "initializer_range": 0.2})";
    write_data("data.jsonl", 5);
  }
  ~SmallRun() override { std::filesystem::remove_all(folder_); }

  void write_data(const std::string& name, unsigned seed) const {
    std::ofstream data(folder_ / name);
    std::mt19937 random(seed);
    for (int line = 0; line < 22; ++line) {
      Json ids = Json::array();
      for (unsigned i = 0; i < 3 + random() % 12; ++i) ids.push_back(random() % 67);
      data << Json{{"input_ids", ids}}.dump() << "\n";
    }
  }

  config::RunConfig config(const std::string& name) const {
    config::RunConfig config;
    config.model_name_or_path = (folder_ / "model").string();
    config.random_init = true;
    config.train_file = config.validation_file = {(folder_ / "data.jsonl").string()};
    config.output_dir = (folder_ / name).string();
    config.per_device_train_batch_size = 3;
    config.gradient_accumulation_steps = 2;
    config.num_train_epochs = 4;
    config.learning_rate = 1e-2;
    config.logging_steps = 3;
    config.save_steps = 3;
    config.eval_strategy = config::Cadence::kSteps;
    config.eval_steps = 5;
    return config;
  }

  // Runs to the end, or until the signal comes during a step.
  RunResult run_until_signal(const config::RunConfig& config, int64_t step, int signal = SIGTERM) const {
    const schedule::RunInputs inputs = open_inputs(config);
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &cpu_ledger(), nullptr});
    Observer observer;
    observer.on_step = [&](const StepReport& report) {
      if (report.metrics.step == step) raise(signal);
    };
    return train::run(config, inputs, trainer, find_resume(config, inputs, false), observer);
  }

  // Runs to the end, or throws Stop before the step after `stop_after`.
  RunResult run(const config::RunConfig& config, int64_t stop_after = -1, std::vector<StepReport>* reports = nullptr,
                std::vector<report::EvaluationMetrics>* evaluations = nullptr) const {
    const schedule::RunInputs inputs = open_inputs(config);
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &cpu_ledger(), nullptr});
    Observer observer;
    observer.state = [] { return ObserverState{{"kept", 7}}; };
    observer.on_step = [&](const StepReport& report) {
      if (reports != nullptr) reports->push_back(report);
      if (report.metrics.step == stop_after) throw Stop();
    };
    observer.on_evaluation = [&](const report::EvaluationMetrics& report) {
      if (evaluations != nullptr) evaluations->push_back(report);
    };
    return train::run(config, inputs, trainer, find_resume(config, inputs, false), observer);
  }

  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("fathom-loop-" + std::to_string(getpid()));
};

}  // namespace fathom::train::testing
