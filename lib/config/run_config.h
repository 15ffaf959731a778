// A run, completely described: the immutable value that every later room reads instead of YAML.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "config/objective.h"
#include "config/optimizers.h"

namespace fathom::config {

enum class Device { kAuto, kCpu, kCuda };
enum class Method { kFull, kLora };
enum class Attention { kFlash, kMath, kCudnn };
enum class Strategy { kDdp, kFsdp, kAuto };  // kAuto: as a plan says, before anything asks which
enum class Schedule { kConstant, kConstantWithWarmup, kLinear, kCosine };
enum class Cadence { kNo, kSteps, kEpoch };
enum class Qat { kNone, kInt8, kInt4 };
enum class QatActivations { kNone, kInt8 };
enum class MasterWeights { kNone, kFp32, kStochastic };
enum class DatasetFormat { kAuto, kText, kPromptCompletion, kTokenIds, kMessages, kShareGpt, kAlpaca, kPreference };
enum class ReportTo { kNone, kTensorBoard };

// Members carry the names and the order of the keys; docs/config.md says what each means and its default.
struct RunConfig {
  // model
  std::string model_name_or_path;
  bool random_init = false;    // from config.json alone: weights drawn from `seed` instead of read
  std::optional<DType> dtype;  // unset: float32 for full training, the checkpoint's for a frozen base
  Attention attn_implementation = Attention::kFlash;
  Device device = Device::kAuto;
  std::optional<bool> cuda_kernels;  // fathom's own in the place of LibTorch's; unset: the program chooses, else false
  bool cuda_graphs = false;          // layers of a step are recorded and replayed
  int64_t num_threads = 0;           // 0: as many as LibTorch chooses
  int64_t memory_budget = 0;         // bytes; 0: no bound
  int64_t num_processes = 1;         // of the run, each with its share of every step
  Strategy strategy = Strategy::kDdp;
  int64_t dp_replicate_size = 1;      // of FSDP: copies of the model, each in shares of so many processes:
  int64_t dp_shard_size = 0;          // 0: num_processes / dp_replicate_size
  bool reshard_after_forward = true;  // of FSDP: a layer's weights are let go after the forward pass
  int64_t ddp_timeout = 60;           // seconds that one waits for the others
  // method
  Method method = Method::kFull;
  int64_t lora_r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0;
  bool use_rslora = false;                  // scales adapters by lora_alpha / sqrt(lora_r)
  std::vector<std::string> target_modules;  // empty: q_proj and v_proj; {"all-linear"}: every linear layer but the head
  std::vector<std::string> target_parameters;  // experts and routers, by the ends of their names; empty: none
  std::vector<std::string> modules_to_save;    // trained whole beside the adapters: embed_tokens, lm_head, norms
  std::string adapter_name_or_path;            // a PEFT folder to continue from; empty: a new adapter
  bool load_in_8bit = false;                   // the frozen base in INT8
  bool load_in_4bit = false;                   // in NF4
  bool load_in_fp8 = false;                    // in FP8
  bool offload_weights = false;                // those of layers, in the host's memory
  bool fp8 = false;                            // products of that, or of trained weights, in FP8
  bool bnb_4bit_use_double_quant = false;      // NF4's scales in 8 bits
  Qat qat = Qat::kNone;                        // projections trained as they will be stored: fake quantization
  QatActivations qat_activations = QatActivations::kNone;
  // precision
  bool bf16 = false;                                    // autocast
  bool fp16 = false;                                    // autocast, with a loss scale that adapts itself
  bool tf32 = false;                                    // FP32 products on a GPU by its TF32 units
  MasterWeights master_weights = MasterWeights::kNone;  // of weights stored in BF16
  // data
  std::vector<std::string> train_file;       // paths, or patterns of paths
  std::vector<std::string> validation_file;  // the same
  double validation_split = 0;               // share of the training examples that is held out; 0: none
  DatasetFormat dataset_format = DatasetFormat::kAuto;
  int64_t max_length = 1024;
  int64_t max_target_length = 0;  // of what an encoder and decoder answers; 0: max_length
  bool packing = false;
  int64_t pad_to_multiple_of = 0;  // 0: to the longest of the batch
  bool group_by_length = false;
  bool shuffle = true;
  std::optional<bool> completion_only_loss;  // unset: true for prompt/completion data
  bool assistant_only_loss = false;
  bool split_special_tokens = false;
  // training
  Objective objective = Objective::kSft;
  double beta = 0.1;  // of preferences: how far from the reference
  LossType loss_type = LossType::kSigmoid;
  double simpo_gamma = 0.5;
  double label_smoothing = 0;  // share of preferences that are taken to be the other way round
  int64_t per_device_train_batch_size = 8;
  int64_t per_device_eval_batch_size = 8;
  int64_t gradient_accumulation_steps = 1;
  double num_train_epochs = 3;
  int64_t max_steps = -1;  // > 0 wins over num_train_epochs
  Optimizer optim = Optimizer::kAdamW;
  double learning_rate = 5e-5;
  Schedule lr_scheduler_type = Schedule::kLinear;
  double warmup_steps = 0;  // below 1: a share of all steps
  double weight_decay = 0;
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-8;
  double max_grad_norm = 1;            // 0: no clipping; so where it is not given and updates are made in backward
  bool optimizer_in_backward = false;  // each parameter is updated, and its gradient let go, as soon as that is there
  bool offload_optimizer = false;      // optimizer states in the host's memory
  bool gradient_checkpointing = false;
  int64_t loss_chunk_size = 1024;  // rows of logits at a time; 0: all at once
  int64_t seed = 42;
  // cadence
  int64_t logging_steps = 10;
  Cadence eval_strategy = Cadence::kNo;
  int64_t eval_steps = 0;  // 0: logging_steps
  bool eval_on_start = false;
  bool predict_with_generate = false;  // answers beside the loss
  int64_t generation_max_length = 0;   // of these, in tokens; 0: as the longest of the data
  Cadence save_strategy = Cadence::kSteps;
  int64_t save_steps = 500;
  int64_t save_total_limit = 0;  // 0: keep all
  bool save_in_background = true;
  bool load_best_model_at_end = false;
  int64_t early_stopping_patience = 0;  // evaluations without a better loss before the run ends; 0: never
  // run
  std::string output_dir;
  ReportTo report_to = ReportTo::kNone;
  std::string resume_from_checkpoint;  // empty: no; "auto": newest sound checkpoint of output_dir; else a path

  bool operator==(const RunConfig&) const = default;
};

// Sequences in a batch of so many examples.
inline int64_t rows_of(const RunConfig& run, int64_t examples) { return examples * row_of(run.objective).rows; }

// Of what an encoder and decoder answers, in tokens.
inline int64_t target_length(const RunConfig& run) {
  return run.max_target_length > 0 ? run.max_target_length : run.max_length;
}

}  // namespace fathom::config
