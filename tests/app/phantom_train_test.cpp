// `train --phantom-gpu`: the CUDA path to its end for every method and precision, with its bytes as planned.
#include <gmock/gmock.h>

#include <random>

#include "base/json.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;

constexpr char kShapes[2][400] = {
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 101, "hidden_size": 24,
        "intermediate_size": 56, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 307, "hidden_size": 40,
        "intermediate_size": 91, "num_hidden_layers": 3, "num_attention_heads": 5, "num_key_value_heads": 1,
        "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "tie_word_embeddings": true})"};

struct Case {
  std::string name, settings;
  int shape = 0;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const std::string method : {"full", "lora"}) {
    for (const std::string precision : {"fp32", "autocast", "bf16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const int shape : {0, 1}) {
          std::string settings = " method=" + method + (checkpointing ? " gradient_checkpointing=true" : "");
          settings += precision == "bf16" ? " dtype=bfloat16" : " dtype=float32";
          if (precision == "autocast") settings += " bf16=true";
          if (method == "lora") settings += shape == 0 ? " lora_dropout=0.1" : " target_modules=all-linear";
          result.push_back(
              {method + "_" + precision + (checkpointing ? "_checkpointing" : "") + "_shape" + std::to_string(shape),
               settings, shape});
        }
      }
    }
  }
  return result;
}

class PhantomTrain : public ProgramTest {
 protected:
  void write_run(int shape) {
    write("model/config.json", kShapes[shape]);
    std::mt19937 random(3);
    std::string lines;
    for (int line = 0; line < 14; ++line) {
      Json ids = Json::array();
      const unsigned length = 3 + random() % 60;
      for (unsigned i = 0; i < length; ++i) ids.push_back(random() % 101);
      lines += Json{{"input_ids", ids}}.dump() + "\n";
    }
    write("data.jsonl", lines);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 3
gradient_accumulation_steps: 2
num_train_epochs: 2
eval_strategy: epoch
save_strategy: epoch
logging_steps: 1
output_dir: out
)");
  }
  Json memory() const { return read_json(folder_ / "out" / "memory.json"); }
};

class PhantomTrainMatrix : public PhantomTrain, public ::testing::WithParamInterface<Case> {};

TEST_P(PhantomTrainMatrix, RunsToItsEndAsPlanned) {
  write_run(GetParam().shape);
  const Outcome outcome = run("train run.yaml --phantom-gpu H100" + GetParam().settings);
  ASSERT_EQ(outcome.status, 0) << outcome.errors;
  const Json memory = this->memory();
  EXPECT_EQ(memory.at("peak").at("dry_run"), memory.at("peak").at("measured"));
  int64_t sum = 0;
  for (const auto& [name, bytes] : memory.at("components").items()) {
    EXPECT_EQ(bytes.at("dry_run"), bytes.at("measured")) << name;
    sum += bytes.at("measured").get<int64_t>();
  }
  EXPECT_EQ(sum, memory.at("peak").at("measured").get<int64_t>());
  EXPECT_GT(memory.at("components").at("kernels").at("measured").get<int64_t>(), 0);
  EXPECT_THAT(outcome.output, HasSubstr("equal to the byte"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "out" / "phantom-run.txt"));
}

INSTANTIATE_TEST_SUITE_P(Cuda, PhantomTrainMatrix, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

TEST_F(PhantomTrain, NothingTakesItsFolderForAModel) {
  write_run(0);
  ASSERT_EQ(run("train run.yaml --phantom-gpu H100 max_steps=2").status, 0);
  for (const char* command :
       {"generate out --prompt x", "logits out --ids 1,2 --out l.safetensors",
        "eval run.yaml model_name_or_path=out random_init=false", "train run.yaml resume_from_checkpoint=auto",
        "train run.yaml output_dir=other resume_from_checkpoint=out/checkpoint-2"}) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.status, 1) << command;
    EXPECT_THAT(outcome.errors, HasSubstr("phantom GPU")) << command;
  }
}

TEST_F(PhantomTrain, ResumesAsAPhantom) {
  write_run(0);
  ASSERT_EQ(run("train run.yaml --phantom-gpu H100").status, 0);
  std::filesystem::remove_all(folder_ / "out" / "checkpoint-6");
  const Outcome outcome = run("train run.yaml --phantom-gpu H100 resume_from_checkpoint=auto");
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr("resuming from"));
}

TEST_F(PhantomTrain, TooLittleMemoryIsRefusedAndWhenForcedExplained) {
  write_run(0);
  const std::string small = "train run.yaml --phantom-gpu H100 --gpu-memory 40MiB";
  const Outcome refused = run(small);
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.errors, HasSubstr("--force"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  const Outcome forced = run(small + " --force");
  EXPECT_EQ(forced.status, 1);
  EXPECT_THAT(forced.errors, HasSubstr("out of memory"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "model.safetensors"));
}

}  // namespace
}  // namespace fathom
