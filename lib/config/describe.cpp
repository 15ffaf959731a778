// The table of keys as Markdown and as plain text.
#include "config/describe.h"

#include <algorithm>

#include "config/checks.h"
#include "config/keys.h"
#include "config/value.h"

namespace fathom::config {
namespace {

std::string default_of(const Key& key) {
  const std::string value = key.get(RunConfig{});
  return value == "null" ? std::string(key.unset) : value;
}

bool is_plain_default(const Key& key) { return key.get(RunConfig{}) != "null"; }

constexpr const char* kIntroduction = R"(# Config keys

A run is one YAML file of `key: value` lines; on the command line, `key=value` after the file wins over it,
and `key=` or `key=null` takes a value away.
Names, defaults and meanings are those of transformers 5, TRL and PEFT; where one differs, its line says so.

Everything that is wrong with a file is told at once, each with its line and column, and nothing is loaded before that:
unknown keys, keys that stand twice, values of another type, and keys that mean nothing beside the others (`lora_r` with
`method: full`). `yes`, `no`, `on` and `off` are not truth values. Anchors, aliases, tags and `<<` are not taken.
Paths are relative to the folder in which fathom is started; `~/` is the home folder.

This page is written by `build/fathom --help-config > docs/config.md`.
)";

constexpr const char* kRules = R"(
## Rules between keys

A config that breaks one is refused, with the line of the key. Of flags `only with` means their being given at all; the command
line may switch the other key off.

)";

constexpr const char* kRulesOfFiles =
    R"(- `eval_strategy` other than no and `eval_on_start` only with `validation_file` or `validation_split`.
- `warmup_steps` is a whole number, or a share below 1.

And those that the files decide:

- A model stored in codes (a folder of `quantize`) is trained with `method: lora` alone, without `random_init`, `qat` and
  projections in `modules_to_save`; `load_in_8bit`, `load_in_4bit` and `load_in_fp8` are then its own format or absent.
- `modules_to_save` names no module that gets an adapter, and trains nothing in float16: its type follows `dtype`, and the
  checkpoint's where that is not set.
- `completion_only_loss: true` needs completions, or `labels` or a mask beside `input_ids`; every file has at least one sample
  with a token that counts within `max_length`.
- `adapter_name_or_path` needs the same `lora_r`, `lora_alpha`, `use_rslora`, `target_modules`, `target_parameters`
  and `modules_to_save` as here.
- `qat: int4` needs projections whose rows are whole groups of 16 numbers.
- `bf16` and `dtype: bfloat16` need a GPU that multiplies in BF16 (compute capability 8.0 or later), or a CPU.
- `attn_implementation: cudnn` needs a GPU of compute capability 9.0, products in 16 bits, and heads of 64, 128 or 256 numbers.
- `cuda_kernels: true` needs a GPU, and a program that was built with nvcc.
- `fp8: true` needs a GPU of compute capability 8.9 or later, under LoRA a base in FP8 with one scale a row, projections
  with sides of whole 16 numbers, no experts, and products in BF16; on 8.9 without `cuda_graphs`.
- `offload_optimizer: true` and `offload_weights: true` need a GPU and one process.
- `optimizer_in_backward: true` needs one process, and products in float32 or bfloat16.
- `cuda_graphs: true` needs a GPU, one process, and a decoder without experts and without dropout of attention, with
  checkpoints without any dropout.
)";

}  // namespace

std::string keys_page() {
  std::string page = kIntroduction;
  page += "A whole number for which no upper bound is named is at most " + std::to_string(kLargestInteger) + ".\n";
  std::string_view group;
  for (const Key& key : keys()) {
    if (key.group != group) {
      page += "\n## " + std::string(key.group) + "\n\n| key | takes | default | meaning |\n|---|---|---|---|\n";
    }
    group = key.group;
    const std::string quotes = is_plain_default(key) ? "`" : "";
    page.append("| `").append(key.name).append("` | ").append(key.type).append(" | ");
    page.append(quotes).append(default_of(key)).append(quotes).append(" | ").append(key.meaning).append(" |\n");
  }
  return page + kRules + rules_page() + kRulesOfFiles;
}

std::string keys_help() {
  size_t name_width = 0;
  for (const Key& key : keys()) name_width = std::max(name_width, key.name.size());
  std::string text;
  std::string_view group;
  for (const Key& key : keys()) {
    if (key.group != group) text += (group.empty() ? "" : "\n") + std::string(key.group) + ":\n";
    group = key.group;
    text.append("  ").append(key.name).append(name_width + 2 - key.name.size(), ' ');
    text.append(key.meaning).append(" [").append(default_of(key)).append("]\n");
  }
  return text;
}

}  // namespace fathom::config
