// Training with fp8 on a phantom GPU: its bytes as planned, what it multiplies, what it refuses.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::HasSubstr;

class Fp8Products : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    write_model(96);
    write_ids("data.jsonl", 15);
    const std::string full = R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
validation_file: data.jsonl
fp8: true
bf16: true
per_device_train_batch_size: 2
num_train_epochs: 2
eval_strategy: epoch
logging_steps: 1
output_dir: out
)";
    write("full.yaml", full);
    write("run.yaml", full + "method: lora\ntarget_modules: all-linear\nload_in_fp8: true\n");
  }
  void write_model(int inner) {
    const Json model = {{"architectures", {"LlamaForCausalLM"}},
                        {"model_type", "llama"},
                        {"vocab_size", 211},
                        {"hidden_size", 48},
                        {"intermediate_size", inner},
                        {"num_hidden_layers", 3},
                        {"num_attention_heads", 6},
                        {"num_key_value_heads", 2},
                        {"max_position_embeddings", 128}};
    write("model/config.json", model.dump());
  }
};

TEST_F(Fp8Products, TakeWhatWasPlanned) {
  int runs = 0;
  for (const std::string settings :
       {"", " cuda_kernels=false", " dtype=bfloat16 lora_dropout=0.1", " gradient_checkpointing=true",
        " gradient_accumulation_steps=2 packing=true", " cuda_graphs=true pad_to_multiple_of=32",
        " bf16=false dtype=bfloat16 target_modules=[q_proj,down_proj]"}) {
    const Outcome outcome = run("train run.yaml --phantom-gpu H100 output_dir=" + std::to_string(++runs) + settings);
    ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
  }
}

TEST_F(Fp8Products, OfWeightsThatAreTrainedTakeWhatWasPlanned) {
  int runs = 0;
  for (const std::string settings : {"", " bf16=false dtype=bfloat16 master_weights=stochastic optim=adamw_8bit",
                                     " gradient_checkpointing=true gradient_accumulation_steps=2 packing=true",
                                     " cuda_graphs=true pad_to_multiple_of=32",
                                     " bf16=false dtype=bfloat16 master_weights=fp32 optimizer_in_backward=true",
                                     " num_processes=2", " num_processes=2 strategy=fsdp"}) {
    const Outcome outcome = run("train full.yaml --phantom-gpu H100 output_dir=" + std::to_string(++runs) + settings);
    ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
    EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
  }
}

// Every projection forward, and backward all but the first layer's readers of an embedding that is frozen.
TEST_F(Fp8Products, AreThoseOfTheProjections) {
  const std::string base =
      "estimate model random_init=true method=lora target_modules=all-linear load_in_fp8=true "
      "bf16=true per_device_train_batch_size=2 max_length=16 --gpu H100 --kernels";
  EXPECT_THAT(run(base + " fp8=true").output, HasSubstr("aten::_scaled_mm, float8_e4m3fn"));
  EXPECT_THAT(run(base + " fp8=true").output, HasSubstr("aten::_scaled_mm, float8_e5m2"));
  EXPECT_THAT(run(base).output, ::testing::Not(HasSubstr("_scaled_mm")));
  const std::string full =
      "estimate model random_init=true bf16=true per_device_train_batch_size=2 max_length=16 --gpu H100";
  EXPECT_THAT(run(full + " --kernels fp8=true").output, ::testing::AllOf(HasSubstr("aten::_scaled_mm, float8_e4m3fn"),
                                                                         HasSubstr("aten::_scaled_mm, float8_e5m2")));
}

TEST_F(Fp8Products, AreRefusedWhereTheyCannotBeMade) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"--phantom-gpu A100-80GB", "does not multiply in FP8"},
      {"--phantom-gpu RTX-4060 cuda_graphs=true", "cannot be recorded on compute capability 8.9"},
      {"--phantom-gpu H100 load_in_fp8=false", "the base is not in FP8"},
      {"--phantom-gpu H100 qat=int8", "false with qat"},
      {"--phantom-gpu H100 bf16=false dtype=float32", "products of this run are not in BF16"},
      {"device=cpu", "fp8 is true, but this run is on the CPU"},
  };
  for (const auto& [settings, reason] : refused) {
    const Outcome outcome = run("train run.yaml " + settings);
    EXPECT_NE(outcome.status, 0) << settings;
    EXPECT_THAT(outcome.errors, HasSubstr(reason)) << settings;
  }
  EXPECT_THAT(run("train full.yaml --phantom-gpu H100 cuda_kernels=false").errors, HasSubstr("set cuda_kernels: true"));
  EXPECT_THAT(run("estimate qwen2.5-7b bf16=true fp8=true --gpu H100").errors, HasSubstr("18944 wide, more than"));
  write_model(90);
  EXPECT_THAT(run("train run.yaml --phantom-gpu H100").errors, HasSubstr("sides must be multiples of 16"));
}

}  // namespace
}  // namespace fathom
