// Optimizer states in the host's memory, and updates in the backward pass, on phantom GPUs: bytes as planned, what fits
// by them, what is refused.
#include <gmock/gmock.h>

#include <string>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class Offload : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    const Json model = {{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"vocab_size", 509},
                        {"hidden_size", 200},
                        {"intermediate_size", 291},
                        {"num_hidden_layers", 3},
                        {"num_attention_heads", 5},
                        {"num_key_value_heads", 1},
                        {"max_position_embeddings", 128}};
    write("model/config.json", model.dump());
    write_ids("data.jsonl", 15);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
per_device_train_batch_size: 2
max_steps: 4
logging_steps: 1
save_strategy: steps
save_steps: 2
output_dir: out
)");
  }
};

TEST_F(Offload, TakesWhatWasPlanned) {
  int runs = 0;
  for (const std::string settings :
       {"", " dtype=bfloat16 optim=adamw_8bit master_weights=stochastic", " optim=lion cuda_kernels=false",
        " dtype=bfloat16 optim=adamw master_weights=fp32 gradient_checkpointing=true",
        " optim=adamw_bf16 cuda_kernels=false bf16=true", " save_in_background=false optim=adamw_8bit"}) {
    for (const std::string in_backward : {"", " optimizer_in_backward=true"}) {
      const Outcome outcome =
          run("train run.yaml --phantom-gpu RTX-4090 offload_optimizer=true output_dir=" + std::to_string(++runs) +
              settings + in_backward);
      ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings << in_backward;
      EXPECT_THAT(outcome.output, ContainsRegex("reserved .* 0\n")) << settings << in_backward;
      const Json memory = read_json(folder_ / std::to_string(runs) / "memory.json");
      EXPECT_GT(memory.at("offloaded").at("dry_run"), 0);
      EXPECT_EQ(memory.at("offloaded").at("dry_run"), memory.at("offloaded").at("measured"));
    }
  }
}

TEST_F(Offload, LayersTakeWhatWasPlanned) {
  int runs = 0;
  for (const std::string settings :
       {"", " load_in_4bit=true bf16=true", " load_in_8bit=true dtype=bfloat16 gradient_checkpointing=true",
        " bnb_4bit_use_double_quant=true load_in_4bit=true cuda_kernels=false",
        " modules_to_save=[norm,lm_head] optimizer_in_backward=true", " lora_dropout=0.1 load_in_fp8=true"}) {
    const Outcome outcome = run("train run.yaml --phantom-gpu RTX-4090 method=lora offload_weights=true output_dir=" +
                                std::to_string(++runs) + settings);
    ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
    EXPECT_THAT(outcome.output, ContainsRegex("reserved .* 0\n")) << settings;
    const Json memory = read_json(folder_ / std::to_string(runs) / "memory.json");
    EXPECT_GT(memory.at("offloaded").at("dry_run"), 0) << settings;
    EXPECT_EQ(memory.at("offloaded").at("dry_run"), memory.at("offloaded").at("measured")) << settings;
  }
}

// Full training of Llama-3.1-8B in BF16: 16 GB of weights, as much of gradients and of moments in 8 bits.
TEST_F(Offload, FullTrainingOf8BFitsOneCardOf24GB) {
  const auto plan = [&](const std::string& settings) {
    const Outcome outcome =
        run("estimate llama-3.1-8b --gpu RTX-4090 --json dtype=bfloat16 optim=adamw_8bit master_weights=stochastic "
            "gradient_checkpointing=true per_device_train_batch_size=1 max_length=2048 max_steps=1" +
            settings);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "the plan");
  };
  EXPECT_EQ(plan("").at("fits"), false);
  EXPECT_EQ(plan(" optimizer_in_backward=true").at("fits"), false);
  const Json offloaded = plan(" offload_optimizer=true");
  EXPECT_EQ(offloaded.at("fits"), false);
  EXPECT_GT(offloaded.at("time").at("exposed_host_seconds"), 16e9 / 32e9);
  const Json both = plan(" optimizer_in_backward=true offload_optimizer=true");
  EXPECT_EQ(both.at("fits"), true);
  EXPECT_GT(both.at("host").at("offloaded"), 16'000'000'000);
  EXPECT_EQ(both.at("time").at("exposed_host_seconds"), 0) << "hidden by the backward pass";
}

// Whether updates wait is no part of what a run is.
TEST_F(Offload, ARunGoesOnWithUpdatesInTheBackwardPass) {
  const std::string tiny =
      " device=cpu dtype=bfloat16 optim=adamw_8bit master_weights=stochastic max_grad_norm=0 "
      "lr_scheduler_type=constant";
  for (const char* command : {"train run.yaml output_dir=whole", "train run.yaml output_dir=half max_steps=2",
                              "train run.yaml output_dir=rest resume_from_checkpoint=half/checkpoint-2 "
                              "optimizer_in_backward=true"}) {
    const Outcome outcome = run(command + tiny);
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
  }
  EXPECT_TRUE(read_file(folder_ / "rest/model.safetensors") == read_file(folder_ / "whole/model.safetensors"));
}

// An NF4 base of 35 GB.
TEST_F(Offload, LoraOn70BFitsOneCardOf24GB) {
  const auto plan = [&](const std::string& settings) {
    const Outcome outcome =
        run("estimate llama-3.1-70b --gpu RTX-4090 --json method=lora load_in_4bit=true dtype=bfloat16 bf16=true "
            "gradient_checkpointing=true per_device_train_batch_size=1 max_length=2048 max_steps=1" +
            settings);
    EXPECT_EQ(outcome.status, 0) << outcome.errors;
    return parse_json(outcome.output, "the plan");
  };
  EXPECT_EQ(plan("").at("fits"), false);
  const Json offloaded = plan(" offload_weights=true");
  EXPECT_EQ(offloaded.at("fits"), true);
  EXPECT_GT(offloaded.at("host").at("offloaded"), 35'000'000'000);
}

// What it trained may be used elsewhere, and several GPUs do without.
TEST_F(Offload, IsOfOneTrainingAlone) {
  const std::string lora = "method=lora offload_weights=true optimizer_in_backward=true";
  ASSERT_EQ(run("train run.yaml device=cpu output_dir=made").status, 0);
  const Outcome evaluated = run("eval run.yaml validation_file=data.jsonl device=cpu model_name_or_path=made " + lora);
  EXPECT_EQ(evaluated.status, 0) << evaluated.errors;
  const Outcome advice = run("advise run.yaml --gpu H100 --vary gpus " + lora);
  EXPECT_EQ(advice.status, 0) << advice.errors;
}

TEST_F(Offload, RefusesWhatItCannotDo) {
  const auto expect_refused = [&](const std::string& settings, const std::string& why) {
    const Outcome outcome = run("train run.yaml " + settings);
    EXPECT_EQ(outcome.status, 2) << settings;
    EXPECT_THAT(outcome.errors, HasSubstr(why)) << settings;
  };
  const std::string gpu = "--phantom-gpu H100 ";
  expect_refused("device=auto offload_optimizer=true", "this run is on the CPU");
  expect_refused("device=cpu offload_optimizer=true", "expected false with device: cpu");
  expect_refused(gpu + "offload_optimizer=true optim=sgd", "only with optim: ");
  expect_refused(gpu + "offload_optimizer=true method=lora", "only with method: full");
  expect_refused(gpu + "offload_optimizer=true num_processes=2", "several processes");
  expect_refused("device=auto method=lora offload_weights=true", "this run is on the CPU");
  expect_refused(gpu + "offload_weights=true", "only with method: lora");
  expect_refused(gpu + "method=lora offload_weights=true num_processes=2", "several processes");
  expect_refused(gpu + "method=lora offload_weights=true cuda_graphs=true", "expected false with cuda_graphs: true");
  expect_refused(gpu + "optimizer_in_backward=true num_processes=2", "processes add up their gradients");
  expect_refused(gpu + "optimizer_in_backward=true max_grad_norm=1", "expected 0 with optimizer_in_backward: true");
  expect_refused(gpu + "optimizer_in_backward=true gradient_accumulation_steps=2",
                 "gradient_accumulation_steps above 1");
  expect_refused(gpu + "optimizer_in_backward=true fp16=true", "products are in FP16");
  expect_refused(gpu + "optimizer_in_backward=true cuda_graphs=true", "expected false with cuda_graphs: true");
}

}  // namespace
}  // namespace fathom
