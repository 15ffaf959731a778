// The loop: a run that was stopped anywhere and resumed ends in the same bits, and logs every step once.
#include "train/loop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_value.h"
#include "tests/train/small_run.h"
#include "train/inputs.h"
#include "weights/manifest.h"

namespace fathom::train {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Stop;

class LoopTest : public testing::SmallRun {};

TEST_F(LoopTest, ResumedAnywhereItEndsInTheSameBits) {
  for (const bool lora : {false, true}) {
    const auto configure = [&](const std::string& name) {
      config::RunConfig config = this->config(name + (lora ? "-lora" : ""));
      if (lora) {
        config.method = config::Method::kLora;
        config.dtype = DType::kF32;
        config.lora_dropout = 0.2;
      }
      return config;
    };
    const std::string weights = lora ? "adapter_model.safetensors" : "model.safetensors";
    std::vector<StepReport> whole_reports;
    const RunResult whole = run(configure("whole"), -1, &whole_reports);
    EXPECT_EQ(whole.steps, 16);
    EXPECT_LT(whole_reports.back().metrics.loss, whole_reports.front().metrics.loss - 0.1);
    const std::string expected = hash_file(fs::path(configure("whole").output_dir) / weights);
    for (const int64_t stop_after : {2, 4, 7, 14}) {
      config::RunConfig config = configure("stopped" + std::to_string(stop_after));
      config.resume_from_checkpoint = "auto";
      EXPECT_THROW(run(config, stop_after), Stop);
      std::vector<StepReport> reports;
      run(config, -1, &reports);
      EXPECT_EQ(reports.front().metrics.step, stop_after / 3 * 3 + 1) << "continues after the newest checkpoint";
      EXPECT_EQ(reports.back().metrics.loss, whole_reports.back().metrics.loss);
      EXPECT_EQ(reports.back().metrics.peak_bytes, whole_reports.back().metrics.peak_bytes);
      EXPECT_EQ(reports.back().metrics.tokens, whole_reports.back().metrics.tokens);
      EXPECT_EQ(hash_file(fs::path(config.output_dir) / weights), expected) << "stopped after step " << stop_after;
    }
  }
}

TEST_F(LoopTest, ASignalSavesWithinOneStep) {
  config::RunConfig config = this->config("signalled");
  config.save_strategy = config::Cadence::kNo;
  const schedule::RunInputs inputs = open_inputs(config);
  Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                  {at::kCPU, &testing::cpu_ledger(), nullptr});
  Observer observer;
  observer.on_step = [](const StepReport& report) {
    if (report.metrics.step == 4) raise(SIGTERM);
  };
  const RunResult result = train::run(config, inputs, trainer, std::nullopt, observer);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_EQ(result.steps, 4);
  EXPECT_EQ(checkpoint::find_newest(config.output_dir)->step(), 4);
  EXPECT_FALSE(fs::exists(fs::path(config.output_dir) / "model.safetensors"));
}

TEST_F(LoopTest, ATerminalOrAReaderThatGoesAwaySaves) {
  for (const auto& [first, second] :
       {std::pair{SIGHUP, SIGHUP}, {SIGPIPE, SIGPIPE}, {SIGHUP, SIGTERM}, {SIGINT, SIGPIPE}}) {
    config::RunConfig config = this->config("gone" + std::to_string(first) + "-" + std::to_string(second));
    config.save_strategy = config::Cadence::kNo;
    const schedule::RunInputs inputs = open_inputs(config);
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &testing::cpu_ledger(), nullptr});
    Observer observer;
    observer.on_step = [&, first = first, second = second](const StepReport&) {
      raise(first);
      raise(second);
    };
    const RunResult result = train::run(config, inputs, trainer, std::nullopt, observer);
    EXPECT_EQ(result.signal, first);
    EXPECT_EQ(checkpoint::find_newest(config.output_dir)->step(), 1);
  }
}

TEST_F(LoopTest, WhatIsIgnoredStaysIgnored) {
  for (const int signal : {SIGHUP, SIGPIPE}) {
    const auto before = std::signal(signal, SIG_IGN);
    const RunResult result = run_until_signal(this->config("ignored" + std::to_string(signal)), 4, signal);
    std::signal(signal, before);
    EXPECT_EQ(result.signal, 0);
    EXPECT_EQ(result.steps, 16);
  }
}

TEST_F(LoopTest, ASaveInTheBackgroundChangesNothing) {
  std::vector<std::string> hashes;
  std::vector<memory::Memory> memories;
  for (const bool background : {true, false}) {
    config::RunConfig config = this->config(background ? "background" : "foreground");
    config.save_in_background = background;
    config.save_steps = 1;
    memories.push_back(run(config).memory);
    for (const int step : {1, 7, 16}) {
      const fs::path checkpoint = fs::path(config.output_dir) / ("checkpoint-" + std::to_string(step));
      hashes.push_back(hash_file(checkpoint / "model.safetensors") + hash_file(checkpoint / "optimizer.safetensors"));
    }
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(hashes[i], hashes[i + 3]);
  EXPECT_EQ(memories[0].peak, memories[1].peak);
  EXPECT_EQ(memories[0].phase(memory::Phase::kSave), memories[1].phase(memory::Phase::kSave));
}

// A checkpoint that cannot be saved is told, and the run goes on to its model.
TEST_F(LoopTest, AFailedSaveCostsTheCheckpointAlone) {
  const std::string expected = [&] {
    config::RunConfig config = this->config("whole");
    run(config);
    return hash_file(fs::path(config.output_dir) / "model.safetensors");
  }();
  for (const bool background : {true, false}) {
    config::RunConfig config = this->config(background ? "failed" : "failed-in-front");
    config.save_in_background = background;
    const schedule::RunInputs inputs = open_inputs(config);
    const fs::path file = folder_ / "model" / "config.json", aside = folder_ / "aside";
    Observer observer;
    observer.on_step = [&](const StepReport& report) {
      if (report.metrics.step == 5) fs::rename(file, aside);  // a checkpoint holds a copy
      if (report.metrics.step == 8) fs::rename(aside, file);
    };
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &testing::cpu_ledger(), nullptr});
    ::testing::internal::CaptureStderr();
    const RunResult result = train::run(config, inputs, trainer, std::nullopt, observer);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("checkpoint of step 6 could not be saved"), HasSubstr("config.json"),
                      HasSubstr("the run goes on")));
    EXPECT_THAT(result.failures, ElementsAre(HasSubstr("checkpoint of step 6 could not be saved")));
    EXPECT_EQ(hash_file(fs::path(config.output_dir) / "model.safetensors"), expected);
    EXPECT_FALSE(fs::exists(fs::path(config.output_dir) / "checkpoint-6"));
    EXPECT_TRUE(fs::exists(fs::path(config.output_dir) / "checkpoint-9"));
    for (const auto& entry : fs::directory_iterator(config.output_dir)) {
      EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
    }
  }
}

// The base's folder is gone in the end: the weights are there all the same.
TEST_F(LoopTest, WhatGoesBesideTheWeightsDoesNotHoldThemUp) {
  config::RunConfig config = this->config("base-is-gone");
  const schedule::RunInputs inputs = open_inputs(config);
  Observer observer;
  observer.on_step = [&](const StepReport& report) {
    if (report.metrics.step == 16) fs::remove(folder_ / "model" / "config.json");
  };
  Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                  {at::kCPU, &testing::cpu_ledger(), nullptr});
  try {
    train::run(config, inputs, trainer, std::nullopt, observer);
    FAIL() << "the failure was not noticed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("model.safetensors is there, but not all beside it"), HasSubstr("config.json")));
  }
  const fs::path output = config.output_dir;
  EXPECT_TRUE(fs::exists(output / "model.safetensors"));
  EXPECT_FALSE(fs::exists(output / ".model.partial"));
}

// The folder itself is gone, and made again by the next save.
TEST_F(LoopTest, AFolderThatIsRemovedIsMadeAgain) {
  config::RunConfig config = this->config("removed");
  config.save_in_background = false;  // none is being written when it goes
  const schedule::RunInputs inputs = open_inputs(config);
  Observer observer;
  observer.on_step = [&](const StepReport& report) {
    if (report.metrics.step == 10 || report.metrics.step == 16) fs::remove_all(config.output_dir);
  };
  Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                  {at::kCPU, &testing::cpu_ledger(), nullptr});
  EXPECT_THAT(train::run(config, inputs, trainer, std::nullopt, observer).failures, ::testing::IsEmpty());
  EXPECT_TRUE(fs::exists(fs::path(config.output_dir) / "model.safetensors"));
}

// Before the first step it is known that a save would fail.
TEST_F(LoopTest, WhatIsInTheWayOfACheckpointIsToldBeforeTheFirstStep) {
  config::RunConfig config = this->config("in-the-way");
  fs::create_directories(config.output_dir);
  std::ofstream(fs::path(config.output_dir) / "checkpoint-6") << "somebody's";
  std::vector<StepReport> reports;
  try {
    run(config, -1, &reports);
    FAIL() << "a file would be replaced by a checkpoint";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("checkpoint-6' is not a folder"));
  }
  EXPECT_THAT(reports, ::testing::IsEmpty());
  EXPECT_TRUE(fs::is_regular_file(fs::path(config.output_dir) / "checkpoint-6"));
}

// What is opened before the first step ends the run there; a signal's checkpoint needs no log.
TEST_F(LoopTest, WhatCannotStartEndsTheRunBeforeTheFirstStep) {
  config::RunConfig config = this->config("start");
  const schedule::RunInputs inputs = open_inputs(config);
  int64_t steps = 0;
  Observer observer;
  observer.on_start = [] { throw Error("the log cannot be written"); };
  observer.on_step = [&](const StepReport& report) { steps = report.metrics.step; };
  Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                  {at::kCPU, &testing::cpu_ledger(), nullptr});
  EXPECT_THROW(train::run(config, inputs, trainer, std::nullopt, observer), Error);
  EXPECT_EQ(steps, 0);
}

// Where the same files lie elsewhere, or are called otherwise, it is the same run.
TEST_F(LoopTest, PathsAreNoIdentity) {
  for (const bool lora : {false, true}) {
    config::RunConfig base = config(lora ? "base" : "unused");
    if (lora) {
      base.max_steps = 1;
      run(base);
    }
    const auto configure = [&](const std::string& name) {
      config::RunConfig config = this->config(name + (lora ? "-lora" : ""));
      if (lora) {
        config.random_init = false;
        config.method = config::Method::kLora;
        config.dtype = DType::kF32;
        config.model_name_or_path = base.output_dir;
      }
      return config;
    };
    const std::string weights = lora ? "adapter_model.safetensors" : "model.safetensors";
    run(configure("straight"));
    config::RunConfig config = configure("moved");
    EXPECT_THROW(run(config, 4), Stop);
    const fs::path elsewhere = folder_ / (lora ? "elsewhere-lora" : "elsewhere");
    fs::copy(config.model_name_or_path, elsewhere, fs::copy_options::recursive);
    fs::copy(folder_ / "data.jsonl", elsewhere / "data.jsonl");
    config.model_name_or_path = elsewhere.string();
    config.train_file = {(elsewhere / "." / "data.jsonl").string()};
    config.resume_from_checkpoint = "auto";
    ::testing::internal::CaptureStderr();
    run(config);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                AllOf(HasSubstr("model_name_or_path: " + elsewhere.string()), HasSubstr("train_file: "),
                      HasSubstr("the same, by its fingerprint")));
    EXPECT_EQ(hash_file(fs::path(config.output_dir) / weights),
              hash_file(fs::path(configure("straight").output_dir) / weights));
  }
}

TEST_F(LoopTest, ResumingTakesNoMoreMemoryThanStarting) {
  config::RunConfig config = this->config("memory");
  EXPECT_THROW(run(config, 4), Stop);
  config.resume_from_checkpoint = "auto";
  const schedule::RunInputs inputs = open_inputs(config);
  const auto loaded = [&](bool resumes) {
    Trainer trainer(arch::resolve(config, inputs.architecture), 3 * inputs.longest_train * 4,
                    {at::kCPU, &testing::cpu_ledger(), nullptr});
    trainer.model().initialise(7);
    if (resumes) {
      checkpoint::NamedTensors parameters;
      for (const model::Parameter& parameter : trainer.model().trained_parameters()) {
        parameters.emplace_back(parameter.name, parameter.tensor);
      }
      find_resume(config, inputs, false)->copy_into(parameters, trainer.optimizer().state());
    }
    return trainer.loaded();
  };
  EXPECT_EQ(loaded(true), loaded(false));
}

TEST_F(LoopTest, AKilledSaveLeavesNothingForTheNextRun) {
  config::RunConfig config = this->config("killed");
  EXPECT_THROW(run(config, 4), Stop);
  const fs::path output = config.output_dir;
  for (const char* name : {".checkpoint-6.partial", ".checkpoint-1.deleted", ".model.partial"}) {
    fs::create_directories(output / name);
  }
  config.resume_from_checkpoint = "auto";
  EXPECT_THROW(run(config, 4), Stop) << "before its first save";
  for (const auto& entry : fs::directory_iterator(output)) {
    EXPECT_NE(entry.path().filename().string()[0], '.') << entry.path();
  }
}

TEST_F(LoopTest, ARunThatGoesOnFromEarlierSetsLaterCheckpointsAside) {
  config::RunConfig config = this->config("branched");
  config.save_total_limit = 4;
  EXPECT_THROW(run(config, 10), Stop);
  const fs::path output = config.output_dir;
  fs::create_directories(output / "abandoned-checkpoint-9");  // of an earlier branch
  config.resume_from_checkpoint = (output / "checkpoint-3").string();
  ::testing::internal::CaptureStderr();
  EXPECT_THROW(run(config, 5), Stop) << "before its first save";
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("abandoned-checkpoint-9.2"));
  for (const char* name : {"checkpoint-3", "abandoned-checkpoint-6", "abandoned-checkpoint-9.2"}) {
    EXPECT_TRUE(fs::exists(output / name / "manifest.json")) << name;
  }
  EXPECT_FALSE(fs::exists(output / "checkpoint-6"));
  config.resume_from_checkpoint = "auto";
  EXPECT_EQ(find_resume(config, open_inputs(config), false)->step(), 3);
  run(config);
  EXPECT_TRUE(fs::exists(output / "checkpoint-6")) << "what was set aside does not count for the limit";
  EXPECT_TRUE(fs::exists(output / "abandoned-checkpoint-6"));

  config.resume_from_checkpoint = (output / "abandoned-checkpoint-6").string();
  EXPECT_THROW(run(config), UsageError) << "the folder holds another branch";
  config.output_dir = (folder_ / "elsewhere").string();
  EXPECT_EQ(run(config).steps, 16);
}

TEST_F(LoopTest, AnotherConfigDoesNotResume) {
  config::RunConfig config = this->config("changed");
  EXPECT_THROW(run(config, 4), Stop);
  config.resume_from_checkpoint = "auto";
  config.learning_rate = 2e-2;
  config.adam_beta1 = 0.5;
  config.max_length = 512;
  try {
    run(config);
    FAIL() << "another beta was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(
                                  "settings: adam_beta1: 0.5 (there 0.9), max_length: 512 (there 1024); resume with"))
        << "and what may differ is not named";
  }
  config.learning_rate = 1e-2;
  config.adam_beta1 = 0.9;
  config.max_length = 1024;
  config.logging_steps = 1;
  EXPECT_EQ(run(config).steps, 16) << "cadences may change";
}

// Without the keys that came later and as YAML, as an older program saved it.
void forget_settings(const fs::path& checkpoint, const std::string& beginning) {
  std::vector<weights::FileRecord> files = weights::read_and_verify_manifest(checkpoint).files;
  for (weights::FileRecord& file : files) {
    if (file.name != "trainer_state.json") continue;
    Json state = read_json(checkpoint / file.name);
    std::string kept = "# model\n";
    size_t left = state.at("config").size();
    for (const auto& [key, value] : state.at("config").items()) {
      if (key.starts_with(beginning)) continue;
      kept.append(key).append(": ").append(value.get<std::string>()).append("\n");
      --left;
    }
    EXPECT_GT(left, 0U);
    state["config"] = kept;
    fs::remove(checkpoint / file.name);
    file = weights::write_new(checkpoint, file.name, state.dump());
  }
  fs::remove(checkpoint / "manifest.json");
  weights::write_manifest(checkpoint, 3, files);
}

TEST_F(LoopTest, WhatAnEarlierVersionDidNotKnowWasAsItsDefault) {
  config::RunConfig config = this->config("earlier");
  config.method = config::Method::kLora;
  config.dtype = DType::kF32;
  EXPECT_THROW(run(config, 4), Stop);
  forget_settings(fs::path(config.output_dir) / "checkpoint-3", "load_in_");
  config.resume_from_checkpoint = "auto";
  config::RunConfig other = config;
  other.load_in_8bit = true;
  try {
    run(other);
    FAIL() << "another base was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("settings: load_in_8bit: true (there false); resume with"));
  }
  EXPECT_EQ(run(config).steps, 16);
}

TEST_F(LoopTest, OtherDataDoNotResume) {
  config::RunConfig config = this->config("other-data");
  EXPECT_THROW(run(config, 4), Stop);
  config.resume_from_checkpoint = "auto";
  std::ofstream(folder_ / "data.jsonl", std::ios::app) << R"({"input_ids": [1, 2, 3]})"
                                                       << "\n";
  EXPECT_THROW(run(config), Error);
}

TEST_F(LoopTest, AnotherBaseDoesNotResume) {
  // A base with weights, and the same with one number changed.
  config::RunConfig base = config("base");
  base.max_steps = 1;
  run(base);
  const auto lora = [&](const std::string& name) {
    config::RunConfig lora = config(name);
    lora.random_init = false;
    lora.method = config::Method::kLora;
    lora.dtype = DType::kF32;
    lora.model_name_or_path = (folder_ / "base").string();
    return lora;
  };
  const auto change = [&](int64_t at) {
    std::fstream file(folder_ / "base" / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(at, std::ios::end);
    const int byte = file.peek();
    file.seekp(at, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  };
  config::RunConfig config = lora("over-it");
  EXPECT_THROW(run(config, 4), Stop);
  config.resume_from_checkpoint = "auto";
  EXPECT_TRUE(find_resume(config, open_inputs(config), false));
  change(-4);
  try {
    find_resume(config, open_inputs(config), false);
    FAIL() << "another base was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("was saved over another base model than is now in " +
                                                   (folder_ / "base").string()));
  }
  change(-4);
  EXPECT_EQ(run(config).steps, 16);
}

TEST_F(LoopTest, OtherValidationDataAreNoticed) {
  write_data("other.jsonl", 6);
  config::RunConfig config = this->config("other-validation");
  EXPECT_THROW(run(config, 7), Stop);
  config.resume_from_checkpoint = "auto";
  config.validation_file = {(folder_ / "other.jsonl").string()};
  ::testing::internal::CaptureStderr();
  const RunResult result = run(config);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("the validation data are not those of"));
  EXPECT_GT(result.best->step, 5);
}

TEST_F(LoopTest, ADamagedCheckpointIsSkippedAndANamedOneRefused) {
  config::RunConfig config = this->config("damaged");
  EXPECT_THROW(run(config, 7), Stop);
  const fs::path newest = fs::path(config.output_dir) / "checkpoint-6";
  std::fstream file(newest / "optimizer.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x5a');
  file.close();
  config.resume_from_checkpoint = newest.string();
  EXPECT_THROW(find_resume(config, open_inputs(config), false), Error);
  config.resume_from_checkpoint = "auto";
  EXPECT_EQ(find_resume(config, open_inputs(config), false)->step(), 3);
  std::ofstream(fs::path(config.output_dir) / "checkpoint-3" / "manifest.json") << "{}";
  EXPECT_THROW(find_resume(config, open_inputs(config), false), Error) << "starting over would lose what is there";
}

}  // namespace
}  // namespace fathom::train
