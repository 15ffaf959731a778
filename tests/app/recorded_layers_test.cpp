// Training with cuda_graphs on a phantom GPU: its bytes as planned, its launches, what it refuses.
#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "base/json_value.h"
#include "tests/app/run.h"

namespace fathom {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RecordedLayers : public ProgramTest {
 protected:
  void write_run(bool tied) {
    model_ = {{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"vocab_size", 211},
              {"hidden_size", 40},
              {"intermediate_size", 91},
              {"num_hidden_layers", 3},
              {"num_attention_heads", 5},
              {"num_key_value_heads", 1},
              {"max_position_embeddings", 128},
              {"tie_word_embeddings", tied}};
    write("model/config.json", model_.dump());
    write_ids("data.jsonl", 15);
    write("run.yaml", R"(model_name_or_path: model
random_init: true
train_file: data.jsonl
validation_file: data.jsonl
per_device_train_batch_size: 2
num_train_epochs: 3
eval_strategy: epoch
logging_steps: 1
output_dir: out
)");
  }
  Json model_;
};

// Shapes that come back, with evaluations, and others in between; beside the recordings all is as without them.
TEST_F(RecordedLayers, RecordsItsLayersAsPlanned) {
  int runs = 0;
  for (const bool tied : {false, true}) {
    write_run(tied);
    for (const std::string settings :
         {"", " pad_to_multiple_of=0", " bf16=true gradient_checkpointing=true", " dtype=bfloat16 cuda_kernels=false",
          " fp16=true attn_implementation=math eval_on_start=true", " method=lora target_modules=all-linear bf16=true",
          " method=lora lora_dropout=0.1", " method=lora load_in_4bit=true dtype=bfloat16 gradient_checkpointing=true",
          " qat=int8 optim=adamw_8bit save_strategy=steps save_steps=3"}) {
      const std::string padding = settings.find("pad_to") == std::string::npos ? " pad_to_multiple_of=32" : "";
      const Outcome outcome =
          run("train run.yaml --phantom-gpu H100 cuda_graphs=true output_dir=" + std::to_string(++runs) + padding +
              settings);
      ASSERT_EQ(outcome.status, 0) << settings << outcome.errors;
      EXPECT_THAT(outcome.output, HasSubstr("equal to the byte")) << settings;
      EXPECT_THAT(outcome.output, ContainsRegex("reserved .* 0\n")) << settings;
    }
  }
}

// However many layers there are.
TEST_F(RecordedLayers, LaunchesRecordedLayersAtOnce) {
  write_run(false);
  Json model = model_;
  std::vector<int64_t> kernels, launches;
  for (const int layers : {2, 6}) {
    model["num_hidden_layers"] = layers;
    write("model/config.json", model.dump());
    const Outcome outcome = run("estimate model --gpu H100 --kernels --json cuda_graphs=true");
    ASSERT_EQ(outcome.status, 0) << outcome.errors;
    const Json list = parse_json(outcome.output, "the list").at("kernels");
    kernels.push_back(list.at("launches"));
    launches.push_back(list.at("host_launches"));
  }
  EXPECT_GT(kernels[1], kernels[0] + 150);
  EXPECT_LE(launches[1], launches[0] + 3) << "of the optimizer";
}

TEST_F(RecordedLayers, RefusesToRecordWhatIsNotTheSameInEveryStep) {
  write_run(false);
  const auto expect_refused = [&](const std::string& settings, const std::string& why) {
    const Outcome outcome = run("train run.yaml cuda_graphs=true" + settings);
    EXPECT_EQ(outcome.status, 2) << settings;
    EXPECT_THAT(outcome.errors, HasSubstr(why)) << settings;
  };
  const std::string gpu = " --phantom-gpu H100";
  expect_refused(gpu + " gradient_accumulation_steps=2", "expected false with gradient_accumulation_steps above 1");
  expect_refused(gpu + " packing=true", "expected false with packing: true");
  expect_refused(gpu + " num_processes=2", "processes exchange gradients");
  expect_refused(gpu + " method=lora lora_dropout=0.1 gradient_checkpointing=true", "draw what dropout leaves out");
  expect_refused(" device=cpu", "this run is on the CPU");
  Json model = model_;
  model.update({{"architectures", {"MixtralForCausalLM"}},
                {"model_type", "mixtral"},
                {"num_local_experts", 4},
                {"num_experts_per_tok", 2}});
  write("model/config.json", model.dump());
  expect_refused(gpu + "", "which experts tokens go to");
}

}  // namespace
}  // namespace fathom
