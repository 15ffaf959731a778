// Tables of other tools' names: transformers, TRL, PEFT, axolotl, torchtune, LLaMA-Factory, LitGPT.
#include "config/foreign.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <vector>

#include "config/keys.h"
#include "config/value.h"

namespace fathom::config {
namespace {

struct ForeignKey {
  std::string_view theirs;
  std::string_view ours;
  std::string_view note = {};  // where the meaning differs
};

constexpr ForeignKey kForeignKeys[] = {
    {"base_model", "model_name_or_path"},
    {"model", "model_name_or_path"},
    {"model_name", "model_name_or_path"},
    {"model_path", "model_name_or_path"},
    {"pretrained_model_name_or_path", "model_name_or_path"},
    {"torch_dtype", "dtype"},
    {"precision", "dtype", "bf16: true and fp16: true are autocast"},
    {"mixed_precision", "bf16", "bf16: true or fp16: true"},
    {"amp", "bf16", "bf16: true or fp16: true"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"use_fp16", "fp16"},
    {"allow_tf32", "tf32"},
    {"float32_matmul_precision", "tf32", "tf32: true is high"},
    {"matmul_precision", "tf32", "tf32: true is high"},
    {"flash_attention", "attn_implementation", "values are flash and math"},
    {"flash_attn", "attn_implementation", "values are flash and math"},
    {"use_flash_attention_2", "attn_implementation", "values are flash and math"},
    {"sdp_attention", "attn_implementation", "values are flash and math"},
    {"use_cpu", "device", "device: cpu"},
    {"no_cuda", "device", "device: cpu"},
    {"threads", "num_threads"},
    {"adapter", "method", "values are full and lora"},
    {"finetuning_type", "method", "values are full and lora"},
    {"peft_type", "method", "values are full and lora"},
    {"use_peft", "method", "values are full and lora"},
    {"r", "lora_r"},
    {"rank", "lora_r"},
    {"lora_rank", "lora_r"},
    {"alpha", "lora_alpha"},
    {"dropout", "lora_dropout"},
    {"rslora", "use_rslora"},
    {"peft_use_rslora", "use_rslora"},
    {"lora_model_dir", "adapter_name_or_path"},
    {"lora_target", "target_modules"},
    {"lora_target_modules", "target_modules"},
    {"lora_attn_modules", "target_modules"},
    {"lora_modules_to_save", "modules_to_save"},
    {"additional_target", "modules_to_save"},
    {"lora_target_linear", "target_modules", "target_modules: all-linear"},
    {"bfloat16", "bf16"},
    {"bf16_stochastic_round", "master_weights", "true is stochastic"},
    {"use_stochastic_rounding", "master_weights", "true is stochastic"},
    {"kahan_sum", "master_weights", "values are none, fp32 and stochastic"},
    {"main_params_dtype", "master_weights", "values are none, fp32 and stochastic"},
    {"bf16_master_weights_and_grads", "master_weights", "values are none, fp32 and stochastic"},
    {"quantization_aware_training", "qat", "values are none, int8 and int4"},
    {"qat_scheme", "qat", "values are none, int8 and int4"},
    {"weight_dtype", "qat", "values are none, int8 and int4"},
    {"fake_quant_after_n_steps", "qat", "weights are rounded from the first step on"},
    {"activation_dtype", "qat_activations", "values are none and int8"},
    {"dataset", "train_file"},
    {"datasets", "train_file"},
    {"dataset_name", "train_file"},
    {"data_path", "train_file"},
    {"train_data", "train_file"},
    {"train_path", "train_file"},
    {"eval_file", "validation_file"},
    {"val_file", "validation_file"},
    {"eval_dataset", "validation_file"},
    {"test_datasets", "validation_file"},
    {"val_set_size", "validation_split", "a share of the samples, below 1"},
    {"val_size", "validation_split", "a share of the samples, below 1"},
    {"test_size", "validation_split", "a share of the samples, below 1"},
    {"dataset_type", "dataset_format"},
    {"data_format", "dataset_format"},
    {"sequence_len", "max_length"},
    {"seq_len", "max_length"},
    {"seq_length", "max_length"},
    {"sequence_length", "max_length"},
    {"max_seq_len", "max_length"},
    {"max_seq_length", "max_length"},
    {"model_max_length", "max_length"},
    {"block_size", "max_length"},
    {"cutoff_len", "max_length"},
    {"shuffle_dataset", "shuffle"},
    {"train_on_inputs", "completion_only_loss", "with the opposite meaning"},
    {"mask_prompt", "completion_only_loss"},
    {"train_on_responses_only", "assistant_only_loss"},
    {"mask_history", "assistant_only_loss"},
    {"roles_to_train", "assistant_only_loss", "assistant_only_loss: true for [assistant]"},
    {"batch_size", "per_device_train_batch_size"},
    {"micro_batch_size", "per_device_train_batch_size"},
    {"train_batch_size", "per_device_train_batch_size"},
    {"per_gpu_train_batch_size", "per_device_train_batch_size"},
    {"eval_batch_size", "per_device_eval_batch_size"},
    {"val_batch_size", "per_device_eval_batch_size"},
    {"grad_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_accumulation", "gradient_accumulation_steps"},
    {"grad_accum_steps", "gradient_accumulation_steps"},
    {"epochs", "num_train_epochs"},
    {"num_epochs", "num_train_epochs"},
    {"max_epochs", "num_train_epochs"},
    {"iters", "max_steps"},
    {"optimizer", "optim"},
    {"optimizer_name", "optim"},
    {"sample_packing", "packing"},
    {"lr", "learning_rate"},
    {"lr_scheduler", "lr_scheduler_type"},
    {"lr_schedule", "lr_scheduler_type"},
    {"scheduler", "lr_scheduler_type"},
    {"warmup_ratio", "warmup_steps", "a value below 1 is a share of all steps"},
    {"num_warmup_steps", "warmup_steps"},
    {"lr_warmup_steps", "warmup_steps"},
    {"beta1", "adam_beta1"},
    {"beta2", "adam_beta2"},
    {"adam_eps", "adam_epsilon"},
    {"epsilon", "adam_epsilon"},
    {"clip_grad_norm", "max_grad_norm"},
    {"grad_clip", "max_grad_norm"},
    {"gradient_clipping", "max_grad_norm"},
    {"max_norm", "max_grad_norm"},
    {"activation_checkpointing", "gradient_checkpointing"},
    {"enable_activation_checkpointing", "gradient_checkpointing"},
    {"grad_checkpoint", "gradient_checkpointing"},
    {"random_seed", "seed"},
    {"data_seed", "seed"},
    {"log_interval", "logging_steps"},
    {"log_every_n_steps", "logging_steps"},
    {"steps_per_report", "logging_steps"},
    {"evaluation_strategy", "eval_strategy"},
    {"steps_per_eval", "eval_steps"},
    {"evals_per_epoch", "eval_steps"},
    {"saves_per_epoch", "save_steps"},
    {"save_every", "save_steps"},
    {"save_interval", "save_steps"},
    {"patience", "early_stopping_patience"},
    {"early_stopping_rounds", "early_stopping_patience"},
    {"out_dir", "output_dir"},
    {"output", "output_dir"},
    {"adapter_path", "output_dir"},
    {"resume", "resume_from_checkpoint"},
    {"resume_from", "resume_from_checkpoint"},
    {"auto_resume_from_checkpoints", "resume_from_checkpoint", "resume_from_checkpoint: auto"},
};

struct Unsupported {
  std::string_view name;
  std::string_view remedy;
};

constexpr Unsupported kUnsupported[] = {
    {"use_dora", "remove it"},
    {"bnb_4bit_quant_type", "remove it: load_in_4bit is NF4"},
    {"bnb_4bit_compute_dtype", "remove it: products are in the type of dtype, or in that of bf16: true or fp16: true"},
    {"quantize", "write load_in_8bit: true, load_in_4bit: true or load_in_fp8: true"},
    {"fp16_full_eval", "remove it: evaluations compute as training does"},
    {"bf16_full_eval", "remove it: evaluations compute as training does"},
    {"loss_scale", "remove it: fp16: true finds its own, beginning at 65536"},
    {"initial_scale_power", "remove it: fp16: true begins at 2^16"},
    {"eval_packing", "remove it: evaluations are packed where packing is true"},
    {"packing_strategy", "remove it: packing lays whole samples into the row that they fill best"},
    {"padding_free", "remove it; packing: true has no padding"},
    {"deterministic", "remove it: runs on the CPU repeat exactly at an equal thread count"},
    {"full_determinism", "remove it: runs on the CPU repeat exactly at an equal thread count"},
    {"metric_for_best_model", "remove it: eval_loss is compared"},
    {"greater_is_better", "remove it: eval_loss is compared, and less is better"},
    {"early_stopping_threshold", "remove it: any lower eval_loss is better"},
    {"wandb_project", "remove it: metrics are written to metrics.jsonl in output_dir"},
    {"strategy", "remove it: one device trains"},
    {"deepspeed", "remove it: one device trains"},
    {"fsdp", "remove it: one device trains"},
    {"torch_compile", "remove it"},
    {"compile", "remove it"},
};

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
    {"method", "sft", "write full or lora"},
    {"method", "none", "write full"},
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
    {"optim", "paged_adamw_8bit", "write adamw_8bit, which is small enough to need no pages"},
    {"optim", "adamw_torch_4bit", "not supported; write adamw_8bit"},
    {"optim", "paged_adamw", "write adamw, or adamw_8bit for less memory"},
    {"optim", "paged_adamw_32bit", "write adamw, or adamw_8bit for less memory"},
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

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// What the key takes, as its own refusal says it.
std::string expected_by(const Key& key) {
  RunConfig ignored;
  Value map;
  map.kind = Value::Kind::kMap;
  return key.set(ignored, map)->expected;
}

// Levenshtein's distance.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

template <typename Row, size_t N>
const Row* find(const Row (&rows)[N], std::string_view Row::*column, std::string_view name) {
  const auto found = std::find_if(rows, rows + N, [&](const Row& row) { return row.*column == name; });
  return found == rows + N ? nullptr : found;
}

}  // namespace

UnknownKey explain_unknown_key(std::string_view name) {
  constexpr std::string_view kPage = "docs/config.md lists the keys";
  if (const auto* row = find(kUnsupported, &Unsupported::name, name)) {
    return {"not supported yet", std::string(row->remedy)};
  }
  if (const auto* row = find(kForeignKeys, &ForeignKey::theirs, name)) {
    const std::string note = row->note.empty() ? "" : " (" + std::string(row->note) + ")";
    return {"another tool's name", "here it is " + std::string(row->ours) + note, row->ours};
  }
  constexpr size_t kLongest = 64;
  if (name.size() > kLongest) return {"unknown key", std::string(kPage)};
  std::string lower = lower_case(name);
  std::replace(lower.begin(), lower.end(), '-', '_');
  std::string_view nearest;
  size_t smallest = std::max<size_t>(2, lower.size() / 3) + 1;
  const auto consider = [&](std::string_view candidate) {
    const size_t steps = distance(lower, candidate);
    if (steps >= smallest) return;
    smallest = steps;
    nearest = candidate;
  };
  for (const Key& key : keys()) consider(key.name);
  if (nearest.empty()) return {"unknown key", std::string(kPage)};
  return {"unknown key", "did you mean " + std::string(nearest) + "?", nearest};
}

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
