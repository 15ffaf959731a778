// Every key with its type, meaning and member. Defaults are those of RunConfig; names and meanings follow transformers
// 5 (TrainingArguments), TRL (SFTConfig) and PEFT (LoraConfig), and the texts say where fathom differs.
#include "config/keys.h"

#include <algorithm>
#include <utility>

#include "config/key_kinds.h"

namespace fathom::config {
namespace {

constexpr Range kAtLeastOne{.low = 1};
constexpr Range kAtLeastZero{.low = 0};
constexpr Range kThreads{.low = 0, .high = 1024};
constexpr Range kProcesses{.low = 1, .high = 1024};
constexpr Range kShards{.low = 0, .high = 1024};
constexpr Range kAboveZero{.low = 0, .open_low = true};
constexpr Range kShareBelowOne{.low = 0, .high = 1, .open_high = true};
constexpr Range kShareBelowHalf{.low = 0, .high = 0.5, .open_high = true};
constexpr Range kMinusOneOrMore{.low = 1, .special = -1};

Key with(OnResume on_resume, Key key) {
  key.on_resume = on_resume;
  return key;
}
Key rate(Key key) { return with(OnResume::kRate, std::move(key)); }
Key path(Key key) { return with(OnResume::kPath, std::move(key)); }
Key taken(Key key) { return with(OnResume::kTaken, std::move(key)); }

std::vector<Key> model_keys() {
  return {
      path(text(
          "model_name_or_path", "path of a model folder", &RunConfig::model_name_or_path, "a model must be named",
          "A Hugging Face folder: config.json, model.safetensors, tokenizer; or org/name, if the hub's cache has it. "
          "Plans "
          "also take the shapes that `fathom list models` names.")),
      flag("random_init", &RunConfig::random_init,
           "Weights are drawn from `seed` instead of read; the folder needs no more than config.json."),
      dtype_key(),
      choice("attn_implementation", &RunConfig::attn_implementation, kAttentionNames,
             "flash: memory grows with the sequence; math: with its square; cudnn: as flash, by cuDNN's kernel for "
             "compute capability 9.0, which prepares itself for each length of a batch."),
      choice("device", &RunConfig::device, kDeviceNames, "auto takes the GPU where there is one."),
      taken(optional_flag(
          "cuda_kernels", &RunConfig::cuda_kernels, "true on a GPU, where the program has them",
          "fathom's own kernels, in FP32 and BF16, for rotary positions, RMSNorm, SwiGLU, the loss, dequantizing, "
          "the norm of gradients and AdamW. docs/gpu.md says where they were verified.")),
      flag(
          "cuda_graphs", &RunConfig::cuda_graphs,
          "Records the layers of a training step as CUDA graphs, at the second batch of a shape, and replays them: two "
          "launches in place of hundreds. pad_to_multiple_of makes shapes repeat."),
      taken(integer("num_threads", &RunConfig::num_threads, kThreads,
                    "Threads for operators on the CPU; 0: as many as LibTorch chooses.")),
      taken(size(
          "memory_budget", &RunConfig::memory_budget, "no bound",
          "What the run may take: on the CPU live bytes and kernel scratch, beyond which its allocator refuses; on a "
          "GPU what LibTorch's allocator may reserve.")),
      taken(integer(
          "num_processes", &RunConfig::num_processes, kProcesses,
          "So many processes train together, each on a GPU of its own or on the CPU: a step takes as many batches from "
          "each, and gradients are summed. fathom starts them, unless a launcher has.")),
      taken(choice(
          "strategy", &RunConfig::strategy, kStrategyNames,
          "What each of several processes holds: with ddp the whole model, with fsdp its share of weights, gradients "
          "and optimizer states; layers are put together one after the other while they compute. auto takes ddp where "
          "every process is planned to fit with it, else fsdp.")),
      taken(integer("dp_replicate_size", &RunConfig::dp_replicate_size, kProcesses,
                    "With strategy fsdp: so many copies of the model, each shared by num_processes / dp_replicate_size "
                    "processes, "
                    "whose gradients are added up once a step (hybrid sharding).")),
      taken(integer(
          "dp_shard_size", &RunConfig::dp_shard_size, kShards,
          "With strategy fsdp: processes that share one copy of the model; 0: num_processes / dp_replicate_size.")),
      taken(flag(
          "reshard_after_forward", &RunConfig::reshard_after_forward,
          "With strategy fsdp: a layer's weights are let go after its forward pass and come again for the backward "
          "pass; false keeps them until then.")),
      taken(integer(
          "ddp_timeout", &RunConfig::ddp_timeout, kAtLeastOne,
          "Seconds that a process waits for the others once training runs before it ends and says which are missing.")),
  };
}

std::vector<Key> method_keys() {
  return {
      choice("method", &RunConfig::method, kMethodNames,
             "full trains every weight; lora freezes them and trains small matrices beside them."),
      integer("lora_r", &RunConfig::lora_r, kAtLeastOne, "Rank of the adapters."),
      number("lora_alpha", &RunConfig::lora_alpha, kAboveZero, "Adapters are scaled by lora_alpha / lora_r."),
      number("lora_dropout", &RunConfig::lora_dropout, kShareBelowOne, "Share of an adapter's inputs that is dropped."),
      flag("use_rslora", &RunConfig::use_rslora,
           "Adapters are scaled by lora_alpha over the square root of lora_r instead, so that a high rank learns as "
           "fast."),
      modules_key(),
      target_parameters_key(),
      saved_modules_key(),
      path(text("adapter_name_or_path", "path of a PEFT adapter", &RunConfig::adapter_name_or_path, "a new adapter",
                "Training continues from these weights, with a new optimizer; lora_r, lora_alpha, use_rslora, "
                "target_modules, target_parameters and modules_to_save must be the adapter's.")),
      flag("load_in_8bit", &RunConfig::load_in_8bit,
           "The frozen projections in INT8, one scale a row: a quarter of float32. Each is dequantized for its product "
           "alone; embeddings, head and norms stay as `dtype` says (docs/quantization.md)."),
      flag("load_in_4bit", &RunConfig::load_in_4bit, "The same in NF4, one scale for 64 values: an eighth of float32."),
      flag("load_in_fp8", &RunConfig::load_in_fp8, "The same in FP8 (E4M3), one scale a row."),
      taken(flag(
          "offload_weights", &RunConfig::offload_weights,
          "On a GPU: the frozen weights of layers lie in the host's memory, pinned, and come to the GPU a layer at a "
          "time, the next one while a layer computes (docs/offload.md).")),
      flag(
          "fp8", &RunConfig::fp8,
          "Products of projections in FP8, about twice as fast as in BF16, over an FP8 base or in full training: what "
          "they read is quantized as it comes, one scale a token, to E4M3, and gradients to E5M2; gradients of weights "
          "stay in BF16 (docs/quantization.md)."),
      flag("bnb_4bit_use_double_quant", &RunConfig::bnb_4bit_use_double_quant,
           "NF4's scales in 8 bits themselves: 0.37 bits less for each value."),
      choice(
          "qat", &RunConfig::qat, kQatNames,
          "Quantization-aware training: projections are trained as they will be stored, in int8 with a step for each "
          "row or in int4 with one for each group, and the steps are learned (LSQ). `export` writes the codes "
          "(docs/qat.md)."),
      choice("qat_activations", &RunConfig::qat_activations, kQatActivationsNames,
             "int8: what these projections read is rounded too, each token by its own largest magnitude."),
  };
}

std::vector<Key> precision_keys() {
  return {
      flag("bf16", &RunConfig::bf16,
           "Autocast: matrix products in bfloat16 over weights that stay as `dtype` says. Nothing else is cast."),
      flag(
          "fp16", &RunConfig::fp16,
          "The same in float16, whose range is small: with a loss scale that adapts itself, and steps that are skipped "
          "where gradients overflow (docs/precision.md)."),
      flag("tf32", &RunConfig::tf32,
           "On a GPU: products of float32 matrices by its TF32 units, with 10 bits of fraction instead of 23."),
      choice("master_weights", &RunConfig::master_weights, kMasterWeightsNames,
             "Of weights stored and trained in bfloat16, where an update is often smaller than the last digit: fp32 "
             "keeps them in float32 beside, stochastic rounds each update up or down by chance, none to nearest, which "
             "loses it (docs/optimizers.md)."),
  };
}

std::vector<Key> data_keys() {
  constexpr const char* kDataFiles = "path of a JSON lines file, a pattern (data/*.jsonl), or a list of them";
  return {
      path(paths(
          "train_file", kDataFiles, &RunConfig::train_file, "needed for train",
          "One object a line (docs/data.md). Several files in the order of the list, those of a pattern by name.")),
      taken(paths("validation_file", kDataFiles, &RunConfig::validation_file, "no evaluation",
                  "The same for evaluation. `eval_loss` is averaged over tokens, or preferences, not over batches.")),
      number("validation_split", &RunConfig::validation_split, kShareBelowOne,
             "Share of the training samples that is held out for evaluation, drawn by `seed`; 0: none."),
      choice("dataset_format", &RunConfig::dataset_format, kDatasetFormatNames,
             "What the objects are (docs/data.md); auto: seen from the keys of each file's first one."),
      integer("max_length", &RunConfig::max_length, kAtLeastOne,
              "Longer samples are cut to so many tokens; of an encoder and decoder, longer sources."),
      integer("max_target_length", &RunConfig::max_target_length, kAtLeastZero,
              "Of an encoder and decoder: longer targets are cut to so many tokens; 0: as max_length."),
      flag("packing", &RunConfig::packing,
           "Samples laid end to end in rows of max_length tokens, as many as fit, without padding; none sees another. "
           "Batch sizes count such rows, in evaluations too."),
      integer("pad_to_multiple_of", &RunConfig::pad_to_multiple_of, kAtLeastZero,
              "Lengths of batches are rounded up to a multiple of it; 0: as long as the longest sample."),
      flag("group_by_length", &RunConfig::group_by_length,
           "Batches of samples of similar length: less padding, in an order less random."),
      flag("shuffle", &RunConfig::shuffle,
           "Samples in an order drawn from `seed` and the epoch; false: as in the file."),
      optional_flag("completion_only_loss", &RunConfig::completion_only_loss,
                    "true for prompt and completion, else false",
                    "Loss on the completion alone, its end-of-sequence token included."),
      flag("assistant_only_loss", &RunConfig::assistant_only_loss,
           "Of conversations: loss on what the assistant says, its end-of-turn token included; false, as in TRL: on "
           "the user's and the system's words too, which is seldom meant."),
      flag(
          "split_special_tokens", &RunConfig::split_special_tokens,
          "Texts of special tokens in samples stay text, in conversations those alone that the template did not write; "
          "false: they become these tokens, as in transformers."),
  };
}

std::vector<Key> training_keys() {
  return {
      choice("objective", &RunConfig::objective, kObjectiveNames,
             "sft learns samples as they stand; dpo (direct preference optimization) makes the answer that was chosen "
             "likelier than the one that was rejected, held against the model as the run starts; simpo likewise, by "
             "token and without a reference (docs/preference.md)."),
      number("beta", &RunConfig::beta, kAboveZero,
             "Of preferences: what a change of log-probability is worth; with dpo, the larger, the nearer the model "
             "stays to what it was."),
      choice("loss_type", &RunConfig::loss_type, kLossTypeNames,
             "Of preferences, as TRL has it: sigmoid is DPO's own; docs/preference.md has the formula of each."),
      number("simpo_gamma", &RunConfig::simpo_gamma, kAtLeastZero,
             "Of simpo: by how much beta times the chosen answer's log-probability by token is to lead."),
      number("label_smoothing", &RunConfig::label_smoothing, kShareBelowHalf,
             "Of preferences: the share that is taken to be the wrong way round. exo_pair wants one above 0."),
      integer("per_device_train_batch_size", &RunConfig::per_device_train_batch_size, kAtLeastOne,
              "Samples in one forward pass; of preferences pairs, each of which is two sequences."),
      taken(
          integer("per_device_eval_batch_size", &RunConfig::per_device_eval_batch_size, kAtLeastOne,
                  "Samples in one forward pass of an evaluation; of preferences pairs, in the reference's pass too.")),
      integer("gradient_accumulation_steps", &RunConfig::gradient_accumulation_steps,
              {.low = 1, .high = static_cast<double>(kMostAccumulated)},
              "Batches per optimizer step, of each process; the loss is averaged over all their target tokens, or "
              "preferences. A resumed run that leaves it out keeps its steps as large."),
      rate(
          number("num_train_epochs", &RunConfig::num_train_epochs, kAboveZero, "How often the data are gone through.")),
      rate(integer("max_steps", &RunConfig::max_steps, kMinusOneOrMore,
                   "Optimizer steps; -1: as many as num_train_epochs makes, otherwise this wins.")),
      choice(
          "optim", &RunConfig::optim, kOptimizerNames,
          "adamw keeps two numbers for each that is trained, in the type of the weights; adamw_bf16 in bfloat16, "
          "adamw_8bit in 8 bits; lion one, in float32, and steps by signs; adafactor one for each row and column; sgd, "
          "without momentum, none (docs/optimizers.md). Set up as transformers sets up adamw_torch, adamw_bnb_8bit, "
          "lion_32bit, adafactor and sgd."),
      rate(number("learning_rate", &RunConfig::learning_rate, kAtLeastZero, "The highest rate of the schedule.")),
      rate(choice("lr_scheduler_type", &RunConfig::lr_scheduler_type, kScheduleNames,
                  "The rate over the steps; constant ignores warmup_steps.")),
      rate(number("warmup_steps", &RunConfig::warmup_steps, kAtLeastZero,
                  "Steps over which the rate rises from 0; below 1: a share of all steps.")),
      number("weight_decay", &RunConfig::weight_decay, kAtLeastZero,
             "Decay of the weights, by this share of the rate in each step; biases and norms take none."),
      number("adam_beta1", &RunConfig::adam_beta1, kShareBelowOne,
             "adamw: decay of the first moment; lion: share of the momentum in a step."),
      number("adam_beta2", &RunConfig::adam_beta2, kShareBelowOne,
             "adamw: decay of the second moment; lion: decay of the momentum."),
      number("adam_epsilon", &RunConfig::adam_epsilon, kAboveZero,
             "adamw: added to the root of the second moment, which is 0 where no gradient was another number."),
      number(
          "max_grad_norm", &RunConfig::max_grad_norm, kAtLeastZero,
          "Gradients of a larger norm are scaled down to it; 0: no clipping, as where optimizer_in_backward is true."),
      taken(flag(
          "optimizer_in_backward", &RunConfig::optimizer_in_backward,
          "Each parameter is updated during the backward pass as soon as its gradient is there, which is let go at "
          "once: the gradient of one exists at a time in the place of all. Steps are those of max_grad_norm: 0, bit "
          "for bit.")),
      taken(flag(
          "offload_optimizer", &RunConfig::offload_optimizer,
          "On a GPU: optimizer states lie in the host's memory, pinned, and pass through the GPU's a piece at a time; "
          "copies run while it computes. Steps stay the same, bit for bit (docs/offload.md).")),
      flag("gradient_checkpointing", &RunConfig::gradient_checkpointing,
           "Keeps only each layer's input for the backward pass and computes the rest again."),
      integer(
          "loss_chunk_size", &RunConfig::loss_chunk_size, kAtLeastZero,
          "Most rows of logits that exist at a time, of the tokens that count for the loss alone; 0: those of all "
          "tokens at once. With a frozen head fewer exist, where smaller chunks cost no time: on a CPU 16 MiB of "
          "logits, but at least 128 rows in FP32 and 256 in 16 bits; on a GPU 64 MiB, or what the backward pass of a "
          "feed-forward part takes, but at least 256 rows."),
      integer("seed", &RunConfig::seed, kAtLeastZero, "Of the order of samples, dropout and new weights."),
  };
}

std::vector<Key> cadence_keys() {
  return {
      integer("logging_steps", &RunConfig::logging_steps, kAtLeastOne,
              "A line of metrics every so many steps (TRL's 10)."),
      choice("eval_strategy", &RunConfig::eval_strategy, kCadenceNames, "When the validation file is evaluated."),
      integer("eval_steps", &RunConfig::eval_steps, kAtLeastZero,
              "For eval_strategy steps: every so many; 0: every logging_steps."),
      flag("eval_on_start", &RunConfig::eval_on_start, "Evaluates before the first step too."),
      flag("predict_with_generate", &RunConfig::predict_with_generate,
           "Evaluations also write each sample's answer, greedily, from its prompt or source: `eval_exact_match` and "
           "`eval_rougeL` tell how near these come to the data's (docs/metrics.md)."),
      integer("generation_max_length", &RunConfig::generation_max_length, kAtLeastZero,
              "Such an answer ends after so many tokens, its prompt and the token that a decoder starts from not "
              "counted; 0: as many as the longest answer of the data has."),
      choice("save_strategy", &RunConfig::save_strategy, kCadenceNames,
             "When a checkpoint is saved. The final model is saved in any case."),
      integer("save_steps", &RunConfig::save_steps, kAtLeastOne, "For save_strategy steps: every so many."),
      integer("save_total_limit", &RunConfig::save_total_limit, kAtLeastZero,
              "The newest so many checkpoints are kept; 0: all. With load_best_model_at_end the best is one of them, "
              "and there "
              "are at least two."),
      flag("save_in_background", &RunConfig::save_in_background,
           "Checkpoints are written while the next step runs (docs/checkpoints.md); false: training waits for each."),
      flag("load_best_model_at_end", &RunConfig::load_best_model_at_end,
           "The final model is that of the lowest eval_loss: a checkpoint of it is saved as soon as it appears, "
           "whatever "
           "the cadence of saving."),
      integer("early_stopping_patience", &RunConfig::early_stopping_patience, kAtLeastZero,
              "Ends the run after so many evaluations in a row without a lower eval_loss, counted across resumes; 0: "
              "never. The plan plays every step, as if none were left out."),
  };
}

std::vector<Key> run_keys() {
  return {
      text("output_dir", "path of a folder", &RunConfig::output_dir, "needed for train",
           "The run folder: the final model, metrics and checkpoints. One that holds a run is refused unless it is "
           "resumed."),
      choice(
          "report_to", &RunConfig::report_to, kReportToNames,
          "tensorboard: events.out.tfevents.fathom in output_dir, beside metrics.jsonl, which is written in any case."),
      text("resume_from_checkpoint", "path of a checkpoint, or auto", &RunConfig::resume_from_checkpoint, "a new run",
           "auto: the newest sound checkpoint of output_dir, or a new run where there is none."),
  };
}

std::vector<Key> all_keys() {
  std::vector<Key> all;
  const auto append = [&](std::string_view group, std::vector<Key> some, bool all_taken = false) {
    for (Key& key : some) {
      key.group = group;
      if (all_taken) key.on_resume = OnResume::kTaken;
      all.push_back(std::move(key));
    }
  };
  append("model", model_keys());
  append("method", method_keys());
  append("precision", precision_keys());
  append("data", data_keys());
  append("training", training_keys());
  append("cadence", cadence_keys(), /*all_taken=*/true);
  append("run", run_keys(), /*all_taken=*/true);
  return all;
}

}  // namespace

const std::vector<Key>& keys() {
  static const std::vector<Key> all = all_keys();
  return all;
}

const Key* find_key(std::string_view name) {
  const auto& all = keys();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Key& key) { return key.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace fathom::config
