// Tables of other tools' values of our keys: transformers, TRL, PEFT, axolotl, torchtune, LLaMA-Factory, DeepSpeed.
#include <string>

#include "config/foreign.h"
#include "config/keys.h"
#include "config/text.h"
#include "config/value.h"

namespace fathom::config {
namespace {

constexpr std::string_view kPreferenceMethods =
    "of preferences DPO and SimPO are trained: write full or lora, and objective: dpo or simpo";

constexpr std::string_view kOtherObjectives = "not supported; of preferences dpo and simpo are";

constexpr std::string_view kOtherLosses = "not supported; docs/preference.md has the losses that are";

struct ForeignValue {
  std::string_view key;
  std::string_view theirs;
  std::string_view remedy;
};

constexpr std::string_view kAnyMap = "{}";

constexpr ForeignValue kForeignValues[] = {
    {"dataset_format", "chat_template", "write messages"},
    {"dataset_format", "chatml", "write messages"},
    {"dataset_format", "openai", "write messages"},
    {"dataset_format", "conversational", "write messages, or prompt_completion"},
    {"dataset_format", "conversations", "write sharegpt"},
    {"dataset_format", "instruction", "write alpaca"},
    {"dataset_format", "completion", "write text"},
    {"dataset_format", "json", "write auto"},
    {"dataset_format", "jsonl", "write auto"},
    {"dataset_format", "dpo", "write preference, and objective: dpo"},
    {"dataset_format", "csv", "not read; write a file of JSON lines, and auto"},
    {"dataset_format", "parquet", "not read; write a file of JSON lines, and auto"},
    {"attn_implementation", "flash_attention_2", "write flash"},
    {"attn_implementation", "flash_attention_3", "write flash"},
    {"attn_implementation", "flash_attention", "write flash"},
    {"attn_implementation", "sdpa", "write flash"},
    {"attn_implementation", "eager", "write math"},
    {"attn_implementation", "true", "write flash"},
    {"attn_implementation", "false", "write math"},
    {"dtype", "bf16", "write bfloat16"},
    {"dtype", "torch.bfloat16", "write bfloat16"},
    {"dtype", "fp32", "write float32"},
    {"dtype", "float", "write float32"},
    {"dtype", "torch.float32", "write float32"},
    {"dtype", "auto", "remove the key: a frozen base keeps the checkpoint's type"},
    {"dtype", "fp16", "write fp16: true for autocast, or float16 for a frozen base"},
    {"dtype", "torch.float16", "write float16"},
    {"dtype", "half", "write fp16: true for autocast, or float16 for a frozen base"},
    {"device", "gpu", "write cuda"},
    {"device", "cuda:0", "write cuda"},
    {"device", "mps", "not supported; write cpu"},
    {"objective", "orpo", kOtherObjectives},
    {"objective", "cpo", kOtherObjectives},
    {"objective", "ipo", "write dpo, and loss_type: ipo"},
    {"objective", "kto", kOtherObjectives},
    {"objective", "ppo", kOtherObjectives},
    {"objective", "grpo", kOtherObjectives},
    {"objective", "reward", kOtherObjectives},
    {"loss_type", "dpo", "write sigmoid"},
    {"loss_type", "aot", kOtherLosses},
    {"loss_type", "aot_pair", kOtherLosses},
    {"loss_type", "aot_unpaired", kOtherLosses},
    {"loss_type", "discopop", kOtherLosses},
    {"loss_type", "sft", kOtherLosses},
    {"loss_type", "kto", kOtherLosses},
    {"loss_type", "kto_pair", kOtherLosses},
    {"loss_type", "orpo", kOtherLosses},
    {"loss_type", "simpo", "write objective: simpo, without loss_type"},
    {"method", "sft", "write full or lora"},
    {"method", "none", "write full"},
    {"method", "pt", "write full or lora; lines of text are learned whole"},
    {"method", "freeze", "not supported; write lora"},
    {"method", "dpo", kPreferenceMethods},
    {"method", "orpo", kPreferenceMethods},
    {"method", "simpo", kPreferenceMethods},
    {"method", "cpo", kPreferenceMethods},
    {"method", "ipo", kPreferenceMethods},
    {"method", "kto", kPreferenceMethods},
    {"method", "ppo", kPreferenceMethods},
    {"method", "grpo", kPreferenceMethods},
    {"method", "rm", kPreferenceMethods},
    {"method", "reward", kPreferenceMethods},
    {"method", "qlora", "write lora, and load_in_4bit: true"},
    {"method", "dora", "not supported yet; write lora"},
    {"qat", kAnyMap,
     "weight_dtype: int4 is qat: int4 here, activation_dtype: int8 is qat_activations: int8, and groups are those that "
     "the model's rows allow"},
    {"qat", "true", "write int8 or int4"},
    {"qat", "false", "write none"},
    {"qat", "int4_weight_only", "write int4"},
    {"qat", "int4-weight-only", "write int4"},
    {"qat", "int8-int4", "write int4, and qat_activations: int8"},
    {"qat", "8da4w-qat", "write int4, and qat_activations: int8"},
    {"qat", "fp8", "not supported yet; write int8"},
    {"qat", "nvfp4", "not supported yet; write int4"},
    {"strategy", "tp", "tensor parallelism is not supported; write fsdp, or ddp"},
    {"strategy", "pp", "pipeline parallelism is not supported; write fsdp, or ddp"},
    {"strategy", "cp", "context parallelism is not supported; write fsdp, or ddp"},
    {"strategy", "sp", "sequence parallelism is not supported; write fsdp, or ddp"},
    {"strategy", "ep", "expert parallelism is not supported; write fsdp, or ddp"},
    {"strategy", "dp", "write ddp"},
    {"strategy", "hsdp", "write fsdp, with the number of copies as dp_replicate_size"},
    {"strategy", "fsdp1", "write fsdp"},
    {"strategy", "fsdp2", "write fsdp"},
    {"strategy", "zero1", "not supported; write fsdp, which shares weights and gradients too, or ddp"},
    {"strategy", "zero2", "write fsdp, with reshard_after_forward: false as the nearest"},
    {"strategy", "zero3", "write fsdp"},
    {"strategy", "deepspeed", "write fsdp, which shares what ZeRO's stage 3 does, or ddp"},
    {"strategy", "none", "remove the key; one process has the whole model"},
    {"target_modules", "all", "write all-linear"},
    {"target_modules", "all_linear", "write all-linear"},
    {"bf16", "auto", "write true or false"},
    {"bf16", "full", "write dtype: bfloat16"},
    {"fp16", "auto", "write true or false"},
    {"tf32", "auto", "write true or false"},
    {"optim", "adamw_torch", "write adamw"},
    {"optim", "adamw_torch_fused", "write adamw"},
    {"optim", "adamw_hf", "write adamw"},
    {"optim", "adam", "write adamw, with weight_decay: 0"},
    {"optim", "adamw_bnb_8bit", "write adamw_8bit"},
    {"optim", "adamw_torch_8bit", "write adamw_8bit"},
    {"optim", "adamw8bit", "write adamw_8bit"},
    {"optim", "adam8bit", "write adamw_8bit, with weight_decay: 0"},
    {"optim", "paged_adamw_8bit",
     "write adamw_8bit; with method: full, offload_optimizer: true keeps its states in the host's memory"},
    {"optim", "adamw_torch_4bit", "not supported; write adamw_8bit"},
    {"optim", "paged_adamw",
     "write adamw; with method: full, offload_optimizer: true keeps its states in the host's memory"},
    {"optim", "paged_adamw_32bit",
     "write adamw; with method: full, offload_optimizer: true keeps its states in the host's memory"},
    {"optim", "lion_32bit", "write lion"},
    {"optim", "lion_8bit", "not supported yet; write lion, or adamw_8bit"},
    {"optim", "paged_lion_8bit", "not supported yet; write lion, or adamw_8bit"},
    {"optim", "adafactor_8bit", "not supported; write adafactor, or adamw_8bit"},
    {"master_weights", "true", "write fp32"},
    {"master_weights", "false", "write none"},
    {"master_weights", "float32", "write fp32"},
    {"master_weights", "stochastic_rounding", "write stochastic"},
    {"lr_scheduler_type", "cosine_with_warmup", "write cosine, with warmup_steps"},
    {"lr_scheduler_type", "linear_with_warmup", "write linear, with warmup_steps"},
    {"lr_scheduler_type", "none", "write constant"},
    {"lr_scheduler_type", "cosine_with_restarts", "not supported; write cosine"},
    {"lr_scheduler_type", "cosine_with_min_lr", "not supported; write cosine, which ends at 0"},
    {"lr_scheduler_type", "cosine_warmup_with_min_lr", "not supported; write cosine, which ends at 0"},
    {"lr_scheduler_type", "cosine_annealing", "write cosine"},
    {"lr_scheduler_type", "polynomial", "not supported; write linear, which is the polynomial of power 1"},
    {"lr_scheduler_type", "inverse_sqrt", "not supported; write linear or cosine"},
    {"lr_scheduler_type", "reduce_lr_on_plateau", "not supported; write linear or cosine"},
    {"lr_scheduler_type", "warmup_stable_decay", "not supported; write constant_with_warmup, linear or cosine"},
    {"lr_scheduler_type", "wsd", "not supported; write constant_with_warmup, linear or cosine"},
    {"lr_scheduler_type", "rex", "not supported; write cosine"},
    {"lr_scheduler_type", "one_cycle", "not supported; write cosine, with warmup_steps"},
    {"lr_scheduler_type", "greedy", "not supported; write linear or cosine"},
    {"eval_strategy", "false", "write no"},
    {"eval_strategy", "none", "write no"},
    {"eval_strategy", "epochs", "write epoch"},
    {"eval_strategy", "step", "write steps"},
    {"save_strategy", "false", "write no"},
    {"save_strategy", "none", "write no"},
    {"save_strategy", "epochs", "write epoch"},
    {"save_strategy", "step", "write steps"},
    {"save_strategy", "best", "write steps or epoch, with load_best_model_at_end: true"},
    {"report_to", "all", "write tensorboard, or remove it"},
    {"report_to", "wandb", "not supported; write tensorboard, or read metrics.jsonl in output_dir"},
    {"report_to", "mlflow", "not supported; write tensorboard, or read metrics.jsonl in output_dir"},
    {"resume_from_checkpoint", "true", "write auto"},
    {"resume_from_checkpoint", "false", "remove the key"},
    {"resume_from_checkpoint", "yes", "write auto"},
    {"resume_from_checkpoint", "no", "remove the key"},
    {"resume_from_checkpoint", "last", "write auto"},
    {"resume_from_checkpoint", "latest", "write auto"},
};

// What the key takes, as its own refusal says it.
std::string expected_by(const Key& key) {
  RunConfig ignored;
  Value map;
  map.kind = Value::Kind::kMap;
  return key.set(ignored, map)->expected;
}

}  // namespace

std::optional<Mismatch> foreign_value(std::string_view key, const Value& value) {
  if (value.kind != Value::Kind::kScalar && value.kind != Value::Kind::kMap) return std::nullopt;
  const std::string lower = value.kind == Value::Kind::kMap ? std::string(kAnyMap) : lower_case(value.text);
  for (const ForeignValue& row : kForeignValues) {
    if (row.key == key && row.theirs == lower) {
      return Mismatch{expected_by(*find_key(key)), describe(value), std::string(row.remedy)};
    }
  }
  return std::nullopt;
}

}  // namespace fathom::config
