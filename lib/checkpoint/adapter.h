// A PEFT folder back: its LoRA settings as a config's, its tensors into a model that was built with them.
#pragma once

#include <filesystem>

#include "arch/run.h"
#include "model/decoder.h"

namespace fathom::checkpoint {

// The config with method lora and the settings of adapter_config.json. Throws Error for a folder without one, a
// phantom's folder, and for what this decoder cannot express (another peft_type, DoRA, biases, ranks by pattern),
// naming the key.
config::RunConfig with_adapter(config::RunConfig config, const std::filesystem::path& folder);
// Throws Error where the adapter holds an embedding or a head of its own for a model whose two are one matrix: what
// PEFT trains without ensure_weight_tying.
void refuse_untied(const std::filesystem::path& folder, const arch::Architecture& architecture);
// arch::resolve, of a config that may name an adapter. Throws UsageError, naming the settings to write, unless
// config.adapter_name_or_path was trained with the config's lora_r, lora_alpha, use_rslora, target_modules and
// modules_to_save, and one that names adapter_config.json where the model does not have its modules; whatever the two
// above throw besides.
arch::Run resolve_adapted(const config::RunConfig& config, const arch::Architecture& architecture);
// Whether the folder holds adapter_model.safetensors.
bool has_adapter_weights(const std::filesystem::path& folder);
// Throws Error unless adapter_model.safetensors holds what the model trains, in names, shapes and types: reads its
// header, and of the model no more than sizes, so that it may be on LibTorch's meta device.
void require_adapter_of(const std::filesystem::path& folder, const model::Decoder& model);
// Warns if the base that adapter_config.json names is there, and is another folder than `base`.
void warn_of_other_base(const std::filesystem::path& folder, const std::filesystem::path& base);
// Copies the tensors of adapter_model.safetensors into the model's adapters and its modules_to_save, converting their
// types. Throws as require_adapter_of.
void load_adapter(const std::filesystem::path& folder, const model::Decoder& model);

}  // namespace fathom::checkpoint
