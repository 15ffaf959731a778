// Tables of other tools' keys: transformers, TRL, PEFT, axolotl, torchtune, LLaMA-Factory, LitGPT; of accelerate,
// torchtitan and Megatron how a model is shared.
#include <algorithm>
#include <string>
#include <vector>

#include "base/nearest_name.h"
#include "config/foreign.h"
#include "config/keys.h"

namespace fathom::config {
namespace {

struct ForeignKey {
  std::string_view theirs;
  std::string_view ours;
  std::string_view note = {};  // where the meaning differs
};

// Their values are mostly names on the hub.
constexpr std::string_view kFilesNote =
    "paths of JSON lines; of a data set on the hub `hf download --repo-type dataset NAME --local-dir DIR` brings the "
    "files";

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
    {"flash_attention", "attn_implementation", "values are flash, math and cudnn"},
    {"flash_attn", "attn_implementation", "values are flash, math and cudnn"},
    {"use_flash_attention_2", "attn_implementation", "values are flash, math and cudnn"},
    {"sdp_attention", "attn_implementation", "values are flash, math and cudnn"},
    {"use_cpu", "device", "device: cpu"},
    {"no_cuda", "device", "device: cpu"},
    {"threads", "num_threads"},
    {"adapter", "method", "values are full and lora"},
    {"finetuning_type", "method", "values are full and lora"},
    {"peft_type", "method", "values are full and lora"},
    {"use_peft", "method", "true is method: lora"},
    {"lora", "method", "true is method: lora"},
    {"use_lora", "method", "true is method: lora"},
    {"qlora", "method", "true is method: lora with load_in_4bit: true"},
    {"use_qlora", "method", "true is method: lora with load_in_4bit: true"},
    {"rl", "objective", "values are sft, dpo and simpo; loss_type: ipo is a kind of dpo"},
    {"stage", "objective", "values are sft, dpo and simpo"},
    {"dpo_beta", "beta"},
    {"rl_beta", "beta"},
    {"pref_beta", "beta"},
    {"pref_loss", "loss_type"},
    {"dpo_label_smoothing", "label_smoothing", "with loss_type: cdpo"},
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
    {"data_parallel_shard_dim", "dp_shard_size", "with strategy: fsdp; -1 is 0 here"},
    {"data_parallel_shard_degree", "dp_shard_size", "with strategy: fsdp; -1 is 0 here"},
    {"data_parallel_replicate_dim", "dp_replicate_size", "with strategy: fsdp"},
    {"data_parallel_replicate_degree", "dp_replicate_size", "with strategy: fsdp"},
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
    {"dataset", "train_file", kFilesNote},
    {"datasets", "train_file", kFilesNote},
    {"dataset_name", "train_file", kFilesNote},
    {"dataset_dir", "train_file", kFilesNote},
    {"train_dataset", "train_file", kFilesNote},
    {"data_path", "train_file"},
    {"train_data", "train_file"},
    {"train_path", "train_file"},
    {"eval_file", "validation_file"},
    {"val_file", "validation_file"},
    {"eval_dataset", "validation_file", kFilesNote},
    {"test_datasets", "validation_file"},
    {"val_set_size", "validation_split", "a share of the samples, below 1"},
    {"val_size", "validation_split", "a share of the samples, below 1"},
    {"test_size", "validation_split", "a share of the samples, below 1"},
    {"dataset_type", "dataset_format"},
    {"data_format", "dataset_format"},
    {"max_source_length", "max_length"},
    {"val_max_target_length", "max_target_length"},
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
    {"train_on_eos", "assistant_only_loss", "which counts the token that ends a turn"},
    {"train_on_eot", "assistant_only_loss", "which counts the token that ends a turn"},
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
    {"optimizer_in_bwd", "optimizer_in_backward"},
    {"offload_optimizer_device", "offload_optimizer", "true is the host's memory"},
    {"optimizer_offload", "offload_optimizer"},
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

constexpr std::string_view kUpload = "remove it: `hf upload` takes output_dir as it is";
constexpr std::string_view kOneRun = "remove it: a run is known by its output_dir";
constexpr std::string_view kTemplate =
    "remove it: the template is chat_template.jinja in the model's folder, or chat_template of its "
    "tokenizer_config.json";
constexpr std::string_view kNoise = "remove it: lora_dropout and weight_decay are the regularisation here";
constexpr std::string_view kCompiles = "remove it; cuda_graphs: true spares the host most launches of a GPU's step";
constexpr std::string_view kKernels = "remove it: cuda_kernels: true takes the kernels that there are";
constexpr std::string_view kFewer = "remove it: `head -n N FILE` makes a smaller file";
constexpr std::string_view kTokens =
    "remove it: add tokens to the tokenizer's files; embedding and head get rows for them";
constexpr std::string_view kCommands = "remove it: the command says what is done, as `fathom train`";
constexpr std::string_view kTemplateWords = "remove it: dataset_format says what the lines hold (docs/data.md)";
constexpr std::string_view kOneLoss = "remove it: the loss is that of loss_type alone (docs/preference.md)";
constexpr std::string_view kPreferences =
    "remove it: objective says what is learned, sft or dpo, and the model as the run starts is the reference";
constexpr std::string_view kReading = "remove it: all threads read the data, and large files are tokenized once";
constexpr std::string_view kOneDevice =
    "remove it: num_processes and strategy (ddp, fsdp or auto) say how processes share a run";
constexpr std::string_view kScheduleShape = "remove it: lr_scheduler_type and warmup_steps are the whole schedule";
constexpr std::string_view kOptimizerShape = "remove it: optimizers are set up as docs/config.md says under optim";
constexpr std::string_view kCode = "remove it: no code of a model's folder is run";
constexpr std::string_view kLogs = "remove it: metrics.jsonl in output_dir has every logged step";

constexpr Unsupported kUnsupported[] = {
    {"push_to_hub", kUpload},
    {"hub_model_id", kUpload},
    {"hub_strategy", kUpload},
    {"hub_token", kUpload},
    {"hub_private_repo", kUpload},
    {"run_name", kOneRun},
    {"wandb_name", kOneRun},
    {"wandb_run_id", kOneRun},
    {"chat_template", kTemplate},
    {"chat_template_path", kTemplate},
    {"chat_template_jinja", kTemplate},
    {"template", kTemplate},
    {"default_system_message", "remove it: a system message is the first of a conversation's messages"},
    {"neftune_noise_alpha", kNoise},
    {"noisy_embedding_alpha", kNoise},
    {"label_smoothing_factor", kNoise},
    {"use_liger_kernel", kKernels},
    {"enable_liger_kernel", kKernels},
    {"liger_kernel_config", kKernels},
    {"use_unsloth", kKernels},
    {"unsloth", kKernels},
    {"xformers_attention", "write attn_implementation: flash"},
    {"max_samples", kFewer},
    {"max_train_samples", kFewer},
    {"max_eval_samples", kFewer},
    {"special_tokens", kTokens},
    {"tokens", kTokens},
    {"added_tokens", kTokens},
    {"new_special_tokens", kTokens},
    {"add_special_tokens", kTokens},
    {"resize_vocab", kTokens},
    {"tokenizer", "remove it: the tokenizer is that of the model's folder"},
    {"tokenizer_name", "remove it: the tokenizer is that of the model's folder"},
    {"tokenizer_name_or_path", "remove it: the tokenizer is that of the model's folder"},
    {"tokenizer_config", "remove it: the tokenizer is that of the model's folder"},
    {"trust_remote_code", kCode},
    {"revision", "remove it: a name on the hub is the snapshot of its branch main in the cache"},
    {"model_revision", "remove it: a name on the hub is the snapshot of its branch main in the cache"},
    {"cache_dir", "remove it: HF_HUB_CACHE names the cache of models, XDG_CACHE_HOME that of tokens"},
    {"save_only_model", "remove it: a checkpoint holds all that a resumed run needs"},
    {"save_safetensors", "remove it: weights are always saved as safetensors"},
    {"do_train", kCommands},
    {"do_eval", kCommands},
    {"do_predict", kCommands},
    {"generation_num_beams", "remove it: predict_with_generate takes the likeliest token each time, one beam"},
    {"overwrite_output_dir", "remove it: a folder that holds a run is never overwritten; choose another output_dir"},
    {"dataset_text_field", kTemplateWords},
    {"field_messages", kTemplateWords},
    {"message_property_mappings", kTemplateWords},
    {"columns", kTemplateWords},
    {"rlhf", kPreferences},
    {"ref_model", kPreferences},
    {"ref_model_name_or_path", kPreferences},
    {"reward_model", kPreferences},
    {"ref_adapter_name_or_path", kPreferences},
    {"precompute_ref_log_probs", kPreferences},
    {"disable_dropout", "remove it: nothing is dropped out with objective: dpo or simpo"},
    {"max_prompt_length", "remove it: max_length cuts answers, and no prompts"},
    {"loss_weights", kOneLoss},
    {"rpo_alpha", kOneLoss},
    {"f_divergence_type", kOneLoss},
    {"dataloader_num_workers", kReading},
    {"dataloader_pin_memory", kReading},
    {"preprocessing_num_workers", kReading},
    {"dataset_num_proc", kReading},
    {"dataset_prepared_path", kReading},
    {"overwrite_cache", kReading},
    {"streaming", kReading},
    {"remove_unused_columns", "remove it: keys of no format are left unread (docs/data.md)"},
    {"ddp_find_unused_parameters", kOneDevice},
    {"local_rank", kOneDevice},
    {"fsdp_config", kOneDevice},
    {"fsdp_version", "remove it: strategy: fsdp is the one way of sharing weights"},
    {"parallelism_config",
     "write its dp_shard_size and dp_replicate_size as keys of their own, with strategy: fsdp; there is no tensor, "
     "context or sequence parallelism (tp_size, cp_size, sp_size)"},
    {"lr_scheduler_kwargs", kScheduleShape},
    {"cosine_min_lr_ratio", kScheduleShape},
    {"min_lr", kScheduleShape},
    {"optim_args", kOptimizerShape},
    {"optim_target_modules", kOptimizerShape},
    {"bias", "remove it: adapters train no biases of the base"},
    {"lora_bias", "remove it: adapters train no biases of the base"},
    {"task_type", "remove it: models here write text (CAUSAL_LM)"},
    {"gradient_checkpointing_kwargs", "remove it: gradient_checkpointing: true is all there is to set"},
    {"logging_dir", kLogs},
    {"logging_strategy", kLogs},
    {"logging_first_step", kLogs},
    {"plot_loss", "remove it: report.html in output_dir plots the loss"},
    {"wandb_entity", kLogs},
    {"disable_tqdm", "remove it: progress is shown in a terminal alone"},
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
    {"deepspeed", kOneDevice},
    {"fsdp", kOneDevice},
    {"torch_compile", kCompiles},
    {"compile", kCompiles},
};

// Ways of sharing a model that are not here.
struct Parallelism {
  std::string_view name;
  std::string_view kind;
};

constexpr std::string_view kOtherParallelism =
    " parallelism, of which there is none: remove it; num_processes with strategy: ddp has the model in each process, "
    "with strategy: fsdp a share in each, of as many copies as dp_replicate_size says";

constexpr Parallelism kParallelisms[] = {
    {"tp_size", "tensor"},
    {"tensor_parallel_size", "tensor"},
    {"tensor_parallel_dim", "tensor"},
    {"tensor_parallel_degree", "tensor"},
    {"tensor_model_parallel_size", "tensor"},
    {"pp_size", "pipeline"},
    {"pipeline_parallel_size", "pipeline"},
    {"pipeline_parallel_degree", "pipeline"},
    {"pipeline_model_parallel_size", "pipeline"},
    {"cp_size", "context"},
    {"context_parallel_size", "context"},
    {"context_parallel_dim", "context"},
    {"context_parallel_degree", "context"},
    {"sp_size", "sequence"},
    {"sequence_parallel", "sequence"},
    {"sequence_parallel_size", "sequence"},
    {"sequence_parallel_degree", "sequence"},
    {"ep_size", "expert"},
    {"expert_parallel_size", "expert"},
    {"expert_parallel_degree", "expert"},
    {"expert_model_parallel_size", "expert"},
};

template <typename Row, size_t N>
const Row* find(const Row (&rows)[N], std::string_view Row::*column, std::string_view name) {
  const auto found = std::find_if(rows, rows + N, [&](const Row& row) { return row.*column == name; });
  return found == rows + N ? nullptr : found;
}

}  // namespace

UnknownKey explain_unknown_key(std::string_view name, const Value* value) {
  constexpr std::string_view kPage = "docs/config.md lists the keys";
  UnknownKey unknown;
  unknown.is_foreign = true;
  if (name == "dry_run") {
    unknown.message = "a command here";
    unknown.remedy = "`fathom estimate` with the same words plans the run and trains nothing";
  } else if (const auto* row = find(kUnsupported, &Unsupported::name, name)) {
    unknown.message = "not supported yet";
    unknown.remedy = row->remedy;
  } else if (const auto* row = find(kParallelisms, &Parallelism::name, name)) {
    unknown.message = "not supported yet";
    unknown.remedy = "this is " + std::string(row->kind) + std::string(kOtherParallelism);
  } else if (const auto* row = find(kForeignKeys, &ForeignKey::theirs, name)) {
    const std::optional<Mismatch> foreign = value == nullptr ? std::nullopt : foreign_value(row->ours, *value);
    const std::string note = foreign ? foreign->remedy : std::string(row->note);
    unknown.message = "another tool's name";
    unknown.remedy = "here it is " + std::string(row->ours) + (note.empty() ? "" : " (" + note + ")");
    unknown.meant = row->ours;
  }
  if (!unknown.message.empty()) return unknown;
  std::vector<std::string> known;
  for (const Key& key : keys()) known.emplace_back(key.name);
  const std::string nearest = nearest_name(name, known);
  if (nearest.empty()) return {"unknown key", std::string(kPage)};
  return {"unknown key", "did you mean " + nearest + "?", find_key(nearest)->name};
}

}  // namespace fathom::config
