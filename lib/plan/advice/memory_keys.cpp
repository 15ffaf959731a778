// The table of what keys are to a search.
#include "plan/advice/memory_keys.h"

#include <algorithm>
#include <iterator>

#include "config/keys.h"

namespace fathom::plan {
namespace {

struct Row {
  std::string_view key;
  MemoryKey role;
};

constexpr Row kRows[] = {
    {"attn_implementation", MemoryKey::kSearched},
    {"bf16", MemoryKey::kSearched},
    {"bnb_4bit_use_double_quant", MemoryKey::kSearched},
    {"cuda_graphs", MemoryKey::kSearched},
    {"dp_replicate_size", MemoryKey::kSearched},
    {"dp_shard_size", MemoryKey::kSearched},
    {"dtype", MemoryKey::kSearched},
    {"fp16", MemoryKey::kSearched},
    {"gradient_accumulation_steps", MemoryKey::kSearched},
    {"gradient_checkpointing", MemoryKey::kSearched},
    {"load_in_4bit", MemoryKey::kSearched},
    {"load_in_8bit", MemoryKey::kSearched},
    {"load_in_fp8", MemoryKey::kSearched},
    {"loss_chunk_size", MemoryKey::kSearched},
    {"master_weights", MemoryKey::kSearched},
    {"max_grad_norm", MemoryKey::kSearched},
    {"method", MemoryKey::kSearched},
    {"offload_optimizer", MemoryKey::kSearched},
    {"offload_weights", MemoryKey::kSearched},
    {"optim", MemoryKey::kSearched},
    {"optimizer_in_backward", MemoryKey::kSearched},
    {"per_device_eval_batch_size", MemoryKey::kSearched},
    {"per_device_train_batch_size", MemoryKey::kSearched},
    {"reshard_after_forward", MemoryKey::kSearched},
    {"strategy", MemoryKey::kSearched},
    {"adapter_name_or_path", MemoryKey::kQuestion},
    {"assistant_only_loss", MemoryKey::kQuestion},
    {"completion_only_loss", MemoryKey::kQuestion},
    {"cuda_kernels", MemoryKey::kQuestion},
    {"dataset_format", MemoryKey::kQuestion},
    {"device", MemoryKey::kQuestion},
    {"eval_on_start", MemoryKey::kQuestion},
    {"eval_steps", MemoryKey::kQuestion},
    {"eval_strategy", MemoryKey::kQuestion},
    {"fp8", MemoryKey::kQuestion},
    {"generation_max_length", MemoryKey::kQuestion},
    {"group_by_length", MemoryKey::kQuestion},
    {"lora_dropout", MemoryKey::kQuestion},
    {"lora_r", MemoryKey::kQuestion},
    {"max_length", MemoryKey::kQuestion},
    {"loss_type", MemoryKey::kQuestion},
    {"simpo_gamma", MemoryKey::kQuestion},
    {"max_steps", MemoryKey::kQuestion},
    {"max_target_length", MemoryKey::kQuestion},
    {"memory_budget", MemoryKey::kQuestion},
    {"model_name_or_path", MemoryKey::kQuestion},
    {"modules_to_save", MemoryKey::kQuestion},
    {"num_processes", MemoryKey::kQuestion},
    {"num_threads", MemoryKey::kQuestion},
    {"num_train_epochs", MemoryKey::kQuestion},
    {"objective", MemoryKey::kQuestion},
    {"packing", MemoryKey::kQuestion},
    {"pad_to_multiple_of", MemoryKey::kQuestion},
    {"predict_with_generate", MemoryKey::kQuestion},
    {"qat", MemoryKey::kQuestion},
    {"qat_activations", MemoryKey::kQuestion},
    {"random_init", MemoryKey::kQuestion},
    {"resume_from_checkpoint", MemoryKey::kQuestion},
    {"seed", MemoryKey::kQuestion},
    {"shuffle", MemoryKey::kQuestion},
    {"split_special_tokens", MemoryKey::kQuestion},
    {"target_modules", MemoryKey::kQuestion},
    {"target_parameters", MemoryKey::kQuestion},
    {"tf32", MemoryKey::kQuestion},
    {"train_file", MemoryKey::kQuestion},
    {"validation_file", MemoryKey::kQuestion},
    {"validation_split", MemoryKey::kQuestion},
    {"adam_beta1", MemoryKey::kNone},
    {"adam_beta2", MemoryKey::kNone},
    {"adam_epsilon", MemoryKey::kNone},
    {"beta", MemoryKey::kQuestion},
    {"ddp_timeout", MemoryKey::kNone},
    {"early_stopping_patience", MemoryKey::kNone},
    {"label_smoothing", MemoryKey::kQuestion},
    {"learning_rate", MemoryKey::kNone},
    {"load_best_model_at_end", MemoryKey::kNone},
    {"logging_steps", MemoryKey::kNone},
    {"lora_alpha", MemoryKey::kNone},
    {"lr_scheduler_type", MemoryKey::kNone},
    {"output_dir", MemoryKey::kNone},
    {"report_to", MemoryKey::kNone},
    {"save_in_background", MemoryKey::kNone},
    {"save_steps", MemoryKey::kNone},
    {"save_strategy", MemoryKey::kNone},
    {"save_total_limit", MemoryKey::kNone},
    {"use_rslora", MemoryKey::kNone},
    {"warmup_steps", MemoryKey::kNone},
    {"weight_decay", MemoryKey::kNone},
};

constexpr std::string_view kUntriedOnGpus[] = {"offload_optimizer", "offload_weights", "optimizer_in_backward"};

}  // namespace

std::optional<MemoryKey> memory_key(std::string_view key) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows), [&](const Row& each) { return each.key == key; });
  return row == std::end(kRows) ? std::nullopt : std::optional(row->role);
}

std::vector<std::string_view> untried_on_gpus(const config::RunConfig& run) {
  const config::RunConfig plain;
  std::vector<std::string_view> keys;
  for (const std::string_view name : kUntriedOnGpus) {
    const config::Key& key = *config::find_key(name);
    if (key.get(run) != key.get(plain)) keys.push_back(name);
  }
  return keys;
}

}  // namespace fathom::plan
