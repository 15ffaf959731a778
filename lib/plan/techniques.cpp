// The table of techniques. What a row does is a function of the run alone, so that rows combine freely.
#include "plan/techniques.h"

#include <cstdint>

#include "arch/precision.h"
#include "base/bytes.h"
#include "config/checks.h"
#include "config/devices.h"
#include "config/keys.h"
#include "config/shards.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

RunConfig with_plain_base(RunConfig run) {
  run.load_in_8bit = run.load_in_4bit = run.load_in_fp8 = run.bnb_4bit_use_double_quant = false;
  return run;
}

std::optional<RunConfig> full_training(RunConfig run) {
  if (run.dtype == DType::kF16) return std::nullopt;  // of a frozen base alone
  run.offload_weights = false;
  const RunConfig plain;
  run.method = config::Method::kFull;
  run.lora_r = plain.lora_r;
  run.lora_alpha = plain.lora_alpha;
  run.lora_dropout = plain.lora_dropout;
  run.target_modules = plain.target_modules;
  run.use_rslora = plain.use_rslora;
  run.target_parameters = plain.target_parameters;
  run.modules_to_save = plain.modules_to_save;
  run.adapter_name_or_path = plain.adapter_name_or_path;
  return with_plain_base(run);
}

std::optional<RunConfig> lora(RunConfig run) {
  run.method = config::Method::kLora;
  run.master_weights = config::MasterWeights::kNone;
  run.offload_optimizer = false;
  return run;
}

// Weights of 32 bits or of 16. `dtype` is set only where they would be stored in another type without it. Weights of 16
// bits are trained only in BF16, without autocast, and never rounded to nearest.
struct Precision {
  int64_t bits = 32;
  bool autocast = false;
  config::MasterWeights masters = config::MasterWeights::kNone;
};

std::optional<RunConfig> with_precision(RunConfig run, const arch::Architecture& architecture, DType narrow,
                                        const Precision& to) {
  const bool full = run.method == config::Method::kFull, rounded = to.masters != config::MasterWeights::kNone;
  if (to.bits == 16 && full != rounded) return std::nullopt;
  if (rounded && narrow != DType::kBF16) return std::nullopt;
  const bool in_fp16 = narrow == DType::kF16 && (to.autocast || to.bits == 16);
  if (in_fp16 && run.optimizer_in_backward) return std::nullopt;
  run = with_plain_base(run);
  run.master_weights = to.masters;
  run.bf16 = to.autocast && narrow == DType::kBF16;
  run.fp16 = to.autocast && narrow == DType::kF16;
  const DType stored = to.bits == 32 ? DType::kF32 : narrow;
  if (arch::precision_of(architecture, run).stored != stored) run.dtype = stored;
  return run;
}

// The frozen projections in fewer bits, what stays in 16; a run that has it already is left as it is.
Technique base_row(const arch::Architecture& architecture, DType narrow, const char* name, const char* note,
                   bool RunConfig::*load_in) {
  return {"precision", name, note, [=](const RunConfig& run) -> std::optional<RunConfig> {
            if (run.method == config::Method::kFull || run.qat != config::Qat::kNone) return std::nullopt;
            if (run.*load_in) return run;
            std::optional<RunConfig> changed =
                with_precision(run, architecture, narrow, {.bits = 16, .autocast = true});
            (*changed).*load_in = true;
            return changed;
          }};
}

Technique precision_row(const arch::Architecture& architecture, DType narrow, const std::string& name,
                        const std::string& note, const Precision& to) {
  return {"precision", name, note, [=](const RunConfig& run) { return with_precision(run, architecture, narrow, to); }};
}

// One way to set a member.
template <typename T>
Technique setting_row(const char* group, const char* name, const char* note, T RunConfig::*member, T value) {
  return {group, name, note, [=](RunConfig run) -> std::optional<RunConfig> {
            run.*member = value;
            return run;
          }};
}

// Only where the run's own chunk is larger than the default: a smaller one saves little.
void add_chunks(std::vector<Technique>& rows, const RunConfig& run) {
  const int64_t chunk = RunConfig().loss_chunk_size;
  if (run.loss_chunk_size > 0 && run.loss_chunk_size <= chunk) return;
  rows.push_back(setting_row("loss", "large chunks of logits", "the same result", &RunConfig::loss_chunk_size,
                             run.loss_chunk_size));
  rows.push_back(setting_row("loss", "loss in chunks", "the same result", &RunConfig::loss_chunk_size, chunk));
}

void add_strategies(std::vector<Technique>& rows, const RunConfig& run, int64_t gpus_per_node) {
  const int64_t processes = run.num_processes;
  if (processes == 1) return;
  rows.push_back({"strategy", "DDP", "each process holds the whole model", with_whole_models});
  const auto add = [&](const char* name, const char* note, bool reshards, int64_t copies) {
    rows.push_back({"strategy", name, note, [=](const RunConfig& whole) -> std::optional<RunConfig> {
                      std::optional<RunConfig> shared = with_shares(whole, processes);
                      if (!shared) return std::nullopt;
                      shared->reshard_after_forward = reshards;
                      shared->dp_replicate_size = copies;
                      return shared;
                    }});
  };
  add("FSDP", "each process holds a share of the model; layers are put together while they compute", true, 1);
  add("FSDP, layers kept", "layers are put together once a micro-batch", false, 1);
  if (gpus_per_node > 1 && processes > gpus_per_node && processes % gpus_per_node == 0) {
    add("HSDP", "a copy of the model in each node, shared by its processes", true, processes / gpus_per_node);
  }
}

void add_batches(std::vector<Technique>& rows, const RunConfig& run) {
  const int64_t effective = checked_multiply(run.per_device_train_batch_size, run.gradient_accumulation_steps,
                                             "per_device_train_batch_size × gradient_accumulation_steps");
  const auto add = [&](int64_t batch) {
    const int64_t accumulation = effective / batch;
    if (accumulation > config::kMostAccumulated || (accumulation > 1 && run.optimizer_in_backward)) return;
    rows.push_back({"batch", std::to_string(batch) + " × " + std::to_string(accumulation) + " accumulated",
                    "the same effective batch", [=](RunConfig changed) -> std::optional<RunConfig> {
                      changed.per_device_train_batch_size = batch;
                      changed.gradient_accumulation_steps = accumulation;
                      return changed;
                    }});
  };
  std::vector<int64_t> larger;
  for (int64_t divisor = 1; divisor <= effective / divisor; ++divisor) {
    if (effective % divisor != 0) continue;
    add(divisor);
    if (divisor != effective / divisor) larger.push_back(effective / divisor);
  }
  for (size_t i = larger.size(); i > 0; --i) add(larger[i - 1]);
}

// The run's own first. Where few weights are trained beside a frozen base their states are not worth another one.
void add_optimizers(std::vector<Technique>& rows, const RunConfig& run) {
  const config::Optimizer own = run.optim;
  const auto add = [&](const config::OptimizerRow& row) {
    rows.push_back({"optimizer", row.title, row.note, [=](RunConfig changed) -> std::optional<RunConfig> {
                      const bool few = changed.method == config::Method::kLora && changed.modules_to_save.empty();
                      if (few && row.optimizer != own) return std::nullopt;
                      changed.optim = row.optimizer;
                      changed.offload_optimizer = changed.offload_optimizer && row.reads_betas;
                      const bool rounded = changed.master_weights != config::MasterWeights::kNone;
                      return rounded && !row.is_adamw ? std::nullopt : std::optional(changed);
                    }});
  };
  for (const bool first : {true, false}) {
    for (const config::OptimizerRow& row : config::kOptimizers) {
      if ((row.optimizer == own) == first) add(row);
    }
  }
}

}  // namespace

DType narrow_type(const RunConfig& run, const Target& target) {
  const bool old = target.device == config::Device::kCuda && !config::has_bf16(target.compute_capability);
  return run.fp16 || old ? DType::kF16 : DType::kBF16;
}

UpdateChange update_change(config::Optimizer from, config::Optimizer to) {
  if (from == to) return UpdateChange::kNone;
  const bool adamw = config::row_of(from).is_adamw && config::row_of(to).is_adamw;
  return adamw ? UpdateChange::kRounded : UpdateChange::kAnother;
}

RunConfig with_whole_models(RunConfig run) {
  const RunConfig plain;
  run.strategy = config::Strategy::kDdp;
  run.reshard_after_forward = plain.reshard_after_forward;
  run.dp_replicate_size = plain.dp_replicate_size;
  run.dp_shard_size = plain.dp_shard_size;
  return run;
}

RunConfig with_processes(RunConfig run, int64_t processes) {
  run.num_processes = processes;
  if (processes > 1) run.optimizer_in_backward = run.offload_optimizer = run.offload_weights = false;
  return run;
}

std::optional<RunConfig> with_shares(RunConfig run, int64_t processes) {
  if (!config::can_be_divided(config::row_of(run.optim))) return std::nullopt;
  run = with_processes(with_whole_models(std::move(run)), processes);
  run.strategy = config::Strategy::kFsdp;
  return run;
}

std::vector<Technique> techniques(const RunConfig& run, const arch::Architecture& architecture, DType narrow,
                                  int64_t gpus_per_node) {
  const std::string bits = narrow == DType::kF16 ? "FP16" : "BF16";
  const auto precision = [&](const std::string& name, const std::string& note, const Precision& to) {
    return precision_row(architecture, narrow, name, note, to);
  };
  std::vector<Technique> rows;
  if (!architecture.quantized) rows.push_back({"method", "full training", "every weight is trained", full_training});
  rows.insert(
      rows.end(),
      {{"method", "LoRA", "adapters are trained, the weights stay as they are", lora},
       precision("FP32", "everything in FP32", {}),
       precision(bits + " autocast", "matrix products in " + bits + " over FP32 weights", {.autocast = true}),
       precision("BF16 with FP32 masters", "the model computes with the rounding of weights that are kept in FP32",
                 {.bits = 16, .masters = config::MasterWeights::kFp32}),
       precision("BF16 rounded stochastically", "no FP32 copy; each update is rounded up or down by chance",
                 {.bits = 16, .masters = config::MasterWeights::kStochastic}),
       precision(bits + " weights", "frozen weights, activations and their gradients in " + bits, {.bits = 16}),
       precision(bits + " weights and autocast",
                 "frozen weights in " + bits + ", adapters multiply in " + bits + " too",
                 {.bits = 16, .autocast = true})});
  if (!architecture.quantized) {
    rows.push_back(base_row(architecture, narrow, "INT8 base",
                            "frozen projections in 8 bits, the rest in 16: rounded weights", &RunConfig::load_in_8bit));
    rows.push_back(base_row(architecture, narrow, "NF4 base",
                            "frozen projections in 4 bits, the rest in 16: coarsely rounded weights",
                            &RunConfig::load_in_4bit));
  }
  add_optimizers(rows, run);
  rows.insert(
      rows.end(),
      {setting_row("checkpointing", "no checkpointing", "the same result", &RunConfig::gradient_checkpointing, false),
       setting_row("checkpointing", "checkpointing", "the same result; the forward pass is computed twice",
                   &RunConfig::gradient_checkpointing, true),
       setting_row("attention", "flash attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kFlash),
       setting_row("attention", "math attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kMath)});
  add_chunks(rows, run);
  add_strategies(rows, run, gpus_per_node);
  add_batches(rows, run);
  return rows;
}

std::vector<std::string> settings_between(const RunConfig& from, const RunConfig& to) {
  std::vector<std::string> settings;
  for (const config::Key& key : config::keys()) {
    const std::string value = key.get(to);
    if (value != key.get(from) && config::applies(key.name, to))
      settings.push_back(std::string(key.name) + "=" + value);
  }
  return settings;
}

}  // namespace fathom::plan
