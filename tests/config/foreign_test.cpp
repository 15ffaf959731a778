// Other tools' names: each is told its name here, and each of those names exists.
#include "config/foreign.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/keys.h"
#include "config/load.h"

namespace fathom::config {
namespace {

using ::testing::HasSubstr;

std::string told(const std::string& line) {
  try {
    parse_config(line + "\n", "f", {}, Purpose::kEstimate);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

TEST(Foreign, KeysAreToldTheirNameHere) {
  const std::pair<const char*, const char*> cases[] = {
      {"micro_batch_size", "per_device_train_batch_size"},
      {"sequence_len", "max_length"},
      {"lora_rank", "lora_r"},
      {"base_model", "model_name_or_path"},
      {"epochs", "num_train_epochs"},
      {"num_epochs", "num_train_epochs"},
      {"lr_scheduler", "lr_scheduler_type"},
      {"clip_grad_norm", "max_grad_norm"},
      {"lora_target_modules", "target_modules"},
      {"max_seq_length", "max_length"},
      {"cutoff_len", "max_length"},
      {"grad_accumulation_steps", "gradient_accumulation_steps"},
      {"train_on_inputs", "completion_only_loss"},
      {"torch_dtype", "dtype"},
      {"mixed_precision", "bf16 (bf16: true or fp16: true)"},
      {"half", "fp16"},
      {"quantization_aware_training", "qat (values are none"},
      {"amp", "bf16 (bf16: true or fp16: true)"},
      {"allow_tf32", "tf32"},
      {"data_parallel_shard_dim", "dp_shard_size (with strategy: fsdp"},
      {"data_parallel_replicate_dim", "dp_replicate_size"},
      {"enable_activation_checkpointing", "gradient_checkpointing"}};
  for (const auto& [theirs, ours] : cases) {
    EXPECT_THAT(told(std::string(theirs) + ": 1"), HasSubstr(std::string("here it is ") + ours)) << theirs;
  }
  EXPECT_EQ(told("base_model: m"), "f:1:1: base_model: another tool's name; here it is model_name_or_path");
  EXPECT_THAT(told("dataset_name: tatsu-lab/alpaca"),
              HasSubstr("here it is train_file (paths of JSON lines; of a data set on the hub `hf download"));
  EXPECT_THAT(told("warmup_ratio: 0.1"), HasSubstr("warmup_steps (a value below 1 is a share of all steps)"));
}

TEST(Foreign, KeysThatAreNotSupportedAreRefusedByName) {
  for (const char* key : {"use_dora",
                          "bnb_4bit_quant_type",
                          "bnb_4bit_compute_dtype",
                          "loss_scale",
                          "fp16_full_eval",
                          "initial_scale_power",
                          "eval_packing",
                          "deterministic",
                          "metric_for_best_model",
                          "push_to_hub",
                          "hub_model_id",
                          "run_name",
                          "chat_template",
                          "template",
                          "neftune_noise_alpha",
                          "use_liger_kernel",
                          "max_samples",
                          "special_tokens",
                          "save_only_model",
                          "do_train",
                          "overwrite_output_dir",
                          "trust_remote_code",
                          "fsdp_version",
                          "rlhf"}) {
    EXPECT_THAT(told(std::string(key) + ": 1"), HasSubstr(std::string(key) + ": not supported yet; ")) << key;
    EXPECT_EQ(find_key(key), nullptr) << key;
  }
  EXPECT_THAT(told("optim: adamw_torch_fused"), HasSubstr("write adamw"));
}

TEST(Foreign, ParallelismThatIsNotHereIsRefusedByItsKind) {
  const std::pair<const char*, std::vector<const char*>> kinds[] = {
      {"tensor",
       {"tp_size", "tensor_parallel_size", "tensor_parallel_dim", "tensor_parallel_degree",
        "tensor_model_parallel_size"}},
      {"pipeline", {"pp_size", "pipeline_parallel_size", "pipeline_parallel_degree", "pipeline_model_parallel_size"}},
      {"context", {"cp_size", "context_parallel_size", "context_parallel_dim", "context_parallel_degree"}},
      {"sequence", {"sp_size", "sequence_parallel", "sequence_parallel_size", "sequence_parallel_degree"}},
      {"expert", {"ep_size", "expert_parallel_size", "expert_parallel_degree", "expert_model_parallel_size"}}};
  for (const auto& [kind, names] : kinds) {
    for (const char* name : names) {
      EXPECT_EQ(
          told("model_name_or_path: m\n" + std::string(name) + ": 2"),
          std::string("f:2:1: ") + name + ": not supported yet; this is " + kind +
              " parallelism, of which there is none: remove it; num_processes with strategy: ddp has the model "
              "in each process, with strategy: fsdp a share in each, of as many copies as dp_replicate_size says");
      EXPECT_EQ(find_key(name), nullptr) << name;
    }
  }
  EXPECT_THAT(told("parallelism_config:\n  dp_shard_size: 2\n  tp_size: 2\n"),
              HasSubstr("not supported yet; write its dp_shard_size and dp_replicate_size as keys of their own"));
  for (const char* key : {"num_processes", "strategy", "dp_replicate_size", "dp_shard_size"}) {
    EXPECT_NE(find_key(key), nullptr) << key;
  }
}

TEST(Foreign, ValuesAreToldTheirNameHere) {
  const std::pair<const char*, const char*> cases[] = {
      {"attn_implementation: flash_attention_2", "one of flash, math, cudnn, got 'flash_attention_2'; write flash"},
      {"attn_implementation: sdpa", "write flash"},
      {"attn_implementation: eager", "write math"},
      {"resume_from_checkpoint: true", "path of a checkpoint, or auto, got 'true'; write auto"},
      {"dtype: bf16", "write bfloat16"},
      {"dtype: torch.float32", "write float32"},
      {"dtype: half", "write fp16: true for autocast, or float16 for a frozen base"},
      {"dtype: torch.float16", "write float16"},
      {"optim: adamw_bnb_8bit", "write adamw_8bit"},
      {"optim: paged_adamw_8bit", "write adamw_8bit"},
      {"optim: adamw_torch_8bit", "write adamw_8bit"},
      {"master_weights: true", "write fp32"},
      {"method: qlora", "write lora, and load_in_4bit: true"},
      {"qat:\n  weight_dtype: int4\n", "one of none, int8, int4, got a map; weight_dtype: int4 is qat: int4 here"},
      {"qat: true", "write int8 or int4"},
      {"eval_strategy: false", "write no"},
      {"target_modules: q_proj", "write [q_proj]"},
      {"target_modules: q_proj v_proj", "got 'q_proj v_proj'; write [q_proj,v_proj]"},
      {"target_modules: q_proj,v_proj , o_proj", "write [q_proj,v_proj,o_proj]"},
      {"target_modules: [q_proj v_proj]", "got 'q_proj v_proj' in the list; put commas between: [q_proj,v_proj]"},
      {"modules_to_save: embed_tokens lm_head", "write [embed_tokens,lm_head]"},
      {"method: dpo",
       "one of full, lora, got 'dpo'; of preferences DPO and SimPO are trained: write full or lora, and obj"},
      {"method: GRPO", "of preferences DPO and SimPO are trained"},
      {"dataset_format: dpo", "write preference, and objective: dpo"},
      {"objective: kto", "one of sft, dpo, simpo, got 'kto'; not supported; of preferences dpo and simpo are"},
      {"objective: ipo", "write dpo, and loss_type: ipo"},
      {"lr_scheduler_type: cosine_with_restarts", "not supported; write cosine"},
      {"lr_scheduler_type: polynomial", "not supported; write linear"},
      {"lr_scheduler_type: cosin", "got 'cosin'; write cosine"},
      {"optim: AdamW", "got 'AdamW'; write adamw"},
      {"strategy: tp", "one of ddp, fsdp, auto, got 'tp'; tensor parallelism is not supported; write fsdp, or ddp"},
      {"strategy: PP", "pipeline parallelism is not supported"},
      {"strategy: cp", "context parallelism is not supported"},
      {"strategy: hsdp", "write fsdp, with the number of copies as dp_replicate_size"},
      {"strategy: zero1", "not supported; write fsdp, which shares weights and gradients too, or ddp"},
      {"strategy: zero2", "write fsdp, with reshard_after_forward: false"},
      {"strategy: zero3", "got 'zero3'; write fsdp"},
      {"strategy: deepspeed", "write fsdp, which shares what ZeRO's stage 3 does, or ddp"},
      {"strategy: fsdp1", "got 'fsdp1'; write fsdp"},
      {"strategy: fsdp2", "got 'fsdp2'; write fsdp"},
      {"strategy: dp", "got 'dp'; write ddp"},
      {"strategy: none", "remove the key; one process has the whole model"},
      {"device: cuda:0", "write cuda"}};
  for (const auto& [line, said] : cases) EXPECT_THAT(told(line), HasSubstr(said)) << line;
}

TEST(Foreign, OurOwnValuesAreNoStrangers) {
  for (const Key& key : keys()) {
    for (const char* word : {"auto", "cpu", "cuda", "full", "lora", "flash", "math", "constant", "linear", "cosine",
                             "no", "steps", "epoch", "all-linear", "float32", "bfloat16", "float16"}) {
      Value value;
      value.kind = Value::Kind::kScalar;
      value.text = word;
      RunConfig run;
      if (key.is_text || key.set(run, value)) continue;
      EXPECT_FALSE(foreign_value(key.name, value)) << key.name << ": " << word;
    }
  }
}

// Whose value says more than the key.
TEST(Foreign, AKeyIsExplainedWithItsValue) {
  EXPECT_THAT(told("adapter: qlora"), HasSubstr("here it is method (write lora, and load_in_4bit: true)"));
  EXPECT_THAT(told("finetuning_type: lora"), HasSubstr("here it is method (values are full and lora)"));
  EXPECT_THAT(told("lora: true"), HasSubstr("here it is method (true is method: lora)"));
  EXPECT_THAT(told("dry_run: true"), HasSubstr("a command here; `fathom estimate`"));
}

TEST(Foreign, NearMissesAreToldTheNearestKey) {
  EXPECT_THAT(told("learning-rate: 1"), HasSubstr("did you mean learning_rate?"));
  EXPECT_THAT(told("Lora_R: 1"), HasSubstr("did you mean lora_r?"));
  EXPECT_THAT(told("gradient_accumulation_step: 1"), HasSubstr("did you mean gradient_accumulation_steps?"));
  EXPECT_THAT(told("zzzzzzzz: 1"), HasSubstr("unknown key; docs/config.md lists the keys"));
  EXPECT_THAT(told(std::string(500, 'a') + ": 1"), HasSubstr("…: unknown key"));
}

}  // namespace
}  // namespace fathom::config
