// Runs on a small folder that was published in codes, and what all of them show.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/json_value.h"
#include "tests/app/several_processes.h"
#include "weights/folder.h"

namespace fathom {

// What of run.yaml is LoRA's alone.
inline constexpr const char* kFullInCodes = " method=full target_modules=null target_parameters=null";

class FolderInCodes : public SeveralProcesses {
 protected:
  // A folder of tests/model, as "model", and a run on it with adapters on attention, and on experts where there are
  // some.
  void set_up(const std::string& name, bool experts) {
    namespace fs = std::filesystem;
    fs::create_directories(folder_ / "model");
    for (const char* file : {"config.json", "model.safetensors"}) {
      fs::copy(fs::path(FATHOM_SOURCE_DIR) / "tests/model" / name / file, folder_ / "model" / file);
    }
    write_ragged_ids("data.jsonl");
    write("run.yaml", R"(model_name_or_path: model
method: lora
target_modules: [q_proj, o_proj]
device: cpu
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 4
max_steps: 4
eval_strategy: epoch
save_steps: 2
logging_steps: 1
output_dir: out
)" + std::string(experts ? "target_parameters: [experts.gate_up_proj, experts.down_proj]\n" : ""));
  }
  void train(const std::string& settings) {
    std::filesystem::remove_all(folder_ / "out");
    const Outcome outcome = run("train run.yaml" + settings);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    EXPECT_THAT(outcome.output, ::testing::HasSubstr("equal to the byte")) << settings;
    const Json peak = read_json(folder_ / "out" / "memory.json").at("peak");
    EXPECT_EQ(peak.at("dry_run"), peak.at("measured")) << settings;
    const auto formula = peak.at("analytic").get<double>();
    EXPECT_NEAR(formula, peak.at("measured").get<double>(), 0.03 * formula) << settings;
  }
  void expect_resumed_in_the_same_bits() {
    train("");
    const std::string whole = hash_file(folder_ / "out" / "adapter_model.safetensors");
    std::filesystem::remove(folder_ / "out" / "adapter_model.safetensors");
    std::filesystem::remove_all(folder_ / "out" / "checkpoint-4");
    ASSERT_EQ(run("train run.yaml resume_from_checkpoint=auto").status, 0);
    EXPECT_EQ(hash_file(folder_ / "out" / "adapter_model.safetensors"), whole);
    train(" bf16=true packing=true max_length=32");
  }
  void expect_planned_on_the_phantom_gpu() {
    for (const std::string settings : {"", " bf16=true", " dtype=bfloat16 gradient_checkpointing=true packing=true"}) {
      train(" device=cuda --phantom-gpu H100" + settings);
    }
  }
  // changed: ends of the names of tensors whose numbers differ.
  void expect_same_tensors(const char* one, const char* other, const std::vector<std::string>& changed) {
    const weights::ModelFolder before(folder_ / one), after(folder_ / other);
    ASSERT_EQ(after.names(), before.names());
    for (const std::string& name : before.names()) {
      const auto was = before.find(name), is = after.find(name);
      ASSERT_EQ(is->info->shape, was->info->shape) << name;
      const bool changes =
          std::ranges::any_of(changed, [&](const std::string& end) { return name.ends_with("." + end); });
      const int difference = std::memcmp(is->data(), was->data(), static_cast<size_t>(was->info->bytes));
      EXPECT_EQ(difference != 0, changes) << name;
    }
  }
  // Exported byte for byte; merged into what `quantize` reads back, in which the matrices with adapters are others.
  void expect_exported_and_merged(const std::vector<std::string>& adapted) {
    ASSERT_EQ(run("export model --out again").status, 0);
    expect_same_tensors("model", "again", {});
    EXPECT_EQ(weights::ModelFolder(folder_ / "again").config()["quantization_config"],
              weights::ModelFolder(folder_ / "model").config()["quantization_config"]);
    train("");
    const Outcome refused = run("export out --merge --out merged");
    EXPECT_EQ(refused.status, 1);
    EXPECT_THAT(refused.errors, ::testing::HasSubstr("fathom quantize"));
    ASSERT_EQ(run("quantize model --format bf16 --out wide").status, 0);
    const Outcome merged = run("export out --merge --base wide --out merged");
    ASSERT_EQ(merged.status, 0) << merged.errors;
    expect_same_tensors("wide", "merged", adapted);
    EXPECT_EQ(run(std::string("eval run.yaml model_name_or_path=merged") + kFullInCodes).status, 0);
  }
};

}  // namespace fathom
