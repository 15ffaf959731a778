// inspect and doctor, which answer without LibTorch.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "base/json_value.h"
#include "tests/app/run.h"
#include "weights/safetensors.h"

namespace fathom {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Inspect : public ProgramTest {
 protected:
  void write_tensors(const std::string& name, const std::vector<std::string>& tensors) {
    std::vector<weights::TensorSource> sources;
    for (const std::string& tensor : tensors) {
      sources.push_back(
          {tensor, DType::kBF16, {2, 3}, [](std::byte* to, int64_t bytes) { std::fill_n(to, bytes, std::byte{1}); }});
    }
    std::filesystem::create_directories((folder_ / name).parent_path());
    weights::write_safetensors(folder_ / name, sources);
  }
};

TEST_F(Inspect, AFileIsListedWithLayersAsOne) {
  write_tensors("x.safetensors", {"model.layers.0.w", "model.layers.1.w", "model.norm"});
  const Outcome outcome = run("inspect x.safetensors");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output,
              AllOf(HasSubstr("kind    safetensors file"), HasSubstr("model.layers.*.w"), HasSubstr("[2, 3]")));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("all +3 +18 +36\n"));
}

TEST_F(Inspect, WhatIsNoFileIsCalledWhatItIs) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe.safetensors").c_str(), 0600), 0);
  EXPECT_THAT(run("inspect pipe.safetensors").errors, HasSubstr("'pipe.safetensors' is a pipe, not a file"));
  EXPECT_THAT(run("inspect /dev/null").errors, HasSubstr("'/dev/null' is a device, not a file"));
}

TEST_F(Inspect, JsonIsOneObject) {
  write_tensors("x.safetensors", {"b", "a"});
  const Json json = parse_json(run("inspect x.safetensors --json").output, "stdout");
  EXPECT_EQ(json["kind"], "safetensors file");
  EXPECT_EQ(json["metadata"]["format"], "pt");
  EXPECT_EQ(json["tensors"].size(), 2U);
  EXPECT_EQ(json["tensors"][0], parse_json(R"({"name": "a", "dtype": "BF16", "shape": [2, 3], "bytes": 12})", ""));
}

TEST_F(Inspect, TheShippedModelHasItsShape) {
  const Outcome outcome = run("inspect '" FATHOM_SOURCE_DIR "/data/model' --json");
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json json = parse_json(outcome.output, "stdout");
  EXPECT_EQ(json["kind"], "model");
  int64_t elements = 0;
  for (const Json& tensor : json["tensors"]) elements += tensor["bytes"].get<int64_t>() / 2;
  EXPECT_EQ(json["parameters"], elements);
}

TEST_F(Inspect, AModelThatCannotBeTrainedIsStillShown) {
  write("m/config.json", R"({"model_type": "mamba", "hidden_size": 64, "architectures": ["MambaForCausalLM"]})");
  const Outcome outcome = run("inspect m");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.output, AllOf(HasSubstr("mamba"), HasSubstr("not for training")));
}

TEST_F(Inspect, ATokenizerIsCountedOrSaysWhyItCannotBeRead) {
  const Json json = parse_json(run("inspect '" FATHOM_SOURCE_DIR "/data/model' --json").output, "stdout");
  EXPECT_EQ(json["tokenizer"], parse_json(R"({"file": "tokenizer.model", "tokens": 1024})", ""));
  write("m/config.json", R"({"model_type": "mamba", "hidden_size": 64, "architectures": ["MambaForCausalLM"]})");
  EXPECT_THAT(run("inspect m").output, ::testing::Not(HasSubstr("tokenizer")));
  write("m/tekken.json", "{}");
  EXPECT_THAT(run("inspect m").output, HasSubstr("tokenizer not read"));
  write("m/tokenizer.json", R"({"model": {"type": "WordPiece", "vocab": {}}})");
  const Json other = parse_json(run("inspect m --json").output, "stdout");
  EXPECT_THAT(other["tokenizer"]["not_supported"].get<std::string>(), HasSubstr("model.type: 'WordPiece'"));
}

TEST_F(Inspect, AnAdapterSaysItsRank) {
  write_tensors("a/adapter_model.safetensors", {"base_model.model.x.lora_A.weight"});
  write("a/adapter_config.json", R"({"peft_type": "LORA", "r": 16, "target_modules": ["q_proj"]})");
  EXPECT_THAT(run("inspect a").output, AllOf(HasSubstr("kind            adapter"), HasSubstr("r               16"),
                                             HasSubstr("[\"q_proj\"]"), HasSubstr("lora_A")));
}

TEST_F(Inspect, ADamagedCheckpointIsRefused) {
  write("c/manifest.json", R"({"format": "fathom checkpoint", "version": 2, "step": 5,
    "files": [{"name": "trainer_state.json", "bytes": 3, "hash": "00000000000000000000000000000000"}]})"
                           "\n");
  write("c/trainer_state.json", "{}\n");
  const Outcome outcome = run("inspect c");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.errors, AllOf(HasSubstr("trainer_state.json"), HasSubstr("hash")));
}

TEST_F(Inspect, WhatIsNothingIsSaid) {
  EXPECT_EQ(run("inspect nowhere").status, 1);
  EXPECT_THAT(run("inspect .").errors, HasSubstr("holds no config.json, adapter_config.json or manifest.json"));
  write("broken.safetensors", "not one");
  EXPECT_EQ(run("inspect broken.safetensors").status, 1);
}

TEST_F(Inspect, DoctorSaysTheMachine) {
  const Outcome text = run("doctor");
  EXPECT_THAT(text.output, AllOf(HasSubstr("CPU "), HasSubstr("memory "), HasSubstr("LibTorch      2.11.")));
  const Json json = parse_json(run("doctor --json").output, "stdout");
  EXPECT_GT(json["cpu"]["cores"], 0);
  EXPECT_GT(json["memory"]["available_bytes"], 0);
  EXPECT_LE(json["memory"]["available_bytes"], json["memory"]["total_bytes"]);
  EXPECT_TRUE(json["libtorch"]["cuda"].is_boolean());
  const Outcome without = run("doctor", "FATHOM_TORCH=/nonexistent ");
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.output, HasSubstr("missing       FATHOM_TORCH is /nonexistent"));
}

}  // namespace
}  // namespace fathom
