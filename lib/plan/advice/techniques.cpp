// The table of techniques. What a row does is a function of the run alone, so that rows combine freely.
#include "plan/advice/techniques.h"

#include <cstdint>

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

// held: as Architecture::dtype_in_use has it.
std::optional<RunConfig> with_precision(RunConfig run, DType held, DType narrow, const Precision& to) {
  const bool full = run.method == config::Method::kFull, rounded = to.masters != config::MasterWeights::kNone;
  if (to.bits == 16 && full != rounded) return std::nullopt;
  if (rounded && narrow != DType::kBF16) return std::nullopt;
  run = with_plain_base(run);
  run.master_weights = to.masters;
  run.bf16 = to.autocast && narrow == DType::kBF16;
  run.fp16 = to.autocast && narrow == DType::kF16;
  const DType stored = to.bits == 32 ? DType::kF32 : narrow;
  if (arch::precision_of(run, held).stored != stored) run.dtype = stored;
  return run;
}

// The frozen projections in fewer bits, what stays in 16; a run that has it already is left as it is.
Technique base_row(DType held, DType narrow, const char* name, const char* note, bool RunConfig::*load_in,
                   bool doubly = false) {
  return {"precision", name, note, [=](const RunConfig& run) -> std::optional<RunConfig> {
            if (run.method == config::Method::kFull || run.qat != config::Qat::kNone) return std::nullopt;
            if (run.*load_in && run.bnb_4bit_use_double_quant == doubly) return run;
            std::optional<RunConfig> changed = with_precision(run, held, narrow, {.bits = 16, .autocast = true});
            (*changed).*load_in = true;
            (*changed).bnb_4bit_use_double_quant = doubly;
            return changed;
          }};
}

void add_quantized_bases(std::vector<Technique>& rows, const arch::Run& run, DType narrow) {
  if (run.architecture.quantized) return;
  const DType held = run.architecture.dtype_in_use();
  rows.push_back(base_row(held, narrow, "INT8 base", "frozen projections in 8 bits, the rest in 16: rounded weights",
                          &RunConfig::load_in_8bit));
  if (run.config.load_in_fp8) {  // as many bytes as INT8, for the sake of its products
    rows.push_back(base_row(held, narrow, "FP8 base", "frozen projections in FP8, the rest in 16 bits: rounded weights",
                            &RunConfig::load_in_fp8));
  }
  rows.push_back(base_row(held, narrow, "NF4 base",
                          "frozen projections in 4 bits, the rest in 16: coarsely rounded weights",
                          &RunConfig::load_in_4bit));
  Technique doubly = base_row(held, narrow, "NF4 base with scales in 8 bits",
                              "as NF4, its scales rounded too: a little coarser", &RunConfig::load_in_4bit, true);
  if (!run.config.bnb_4bit_use_double_quant) doubly.turn = Turn::kLast;
  rows.push_back(std::move(doubly));
}

Technique precision_row(DType held, DType narrow, const std::string& name, const std::string& note,
                        const Precision& to) {
  return {"precision", name, note, [=](const RunConfig& run) { return with_precision(run, held, narrow, to); }};
}

// One way to set a member.
template <typename T>
Technique setting_row(const char* group, const char* name, const char* note, T RunConfig::*member, T value) {
  return {group, name, note, [=](RunConfig run) -> std::optional<RunConfig> {
            run.*member = value;
            return run;
          }};
}

// The run's own, the default where that is smaller, and one below which little is left to save.
void add_chunks(std::vector<Technique>& rows, const RunConfig& run) {
  constexpr int64_t kSmall = 128;
  const int64_t own = run.loss_chunk_size, usual = RunConfig().loss_chunk_size;
  const bool large = own == 0 || own > usual;
  rows.push_back(
      setting_row("loss", large ? "large chunks of logits" : "", "the same result", &RunConfig::loss_chunk_size, own));
  if (large)
    rows.push_back(setting_row("loss", "loss in chunks", "the same result", &RunConfig::loss_chunk_size, usual));
  if (own > 0 && own <= kSmall) return;
  rows.push_back(setting_row("loss", "loss in small chunks", "the same result; narrow products of the head",
                             &RunConfig::loss_chunk_size, kSmall));
  rows.back().turn = Turn::kLast;
}

void add_evaluations(std::vector<Technique>& rows, const RunConfig& run) {
  const int64_t own = run.per_device_eval_batch_size;
  const bool evaluates = run.eval_strategy != config::Cadence::kNo || run.eval_on_start;
  if (own == 1 || (!evaluates && !config::row_of(run.objective).needs_reference)) return;
  rows.push_back(setting_row("evaluation", "", "", &RunConfig::per_device_eval_batch_size, own));
  rows.push_back(setting_row<int64_t>("evaluation", "single rows in evaluations", "the same losses, more slowly",
                                      &RunConfig::per_device_eval_batch_size, 1));
}

void add_graphs(std::vector<Technique>& rows, const RunConfig& run) {
  if (!run.cuda_graphs) return;
  rows.push_back(setting_row("graphs", "CUDA graphs", "the same result", &RunConfig::cuda_graphs, true));
  rows.push_back(setting_row("graphs", "no CUDA graphs", "the same result, launched kernel by kernel",
                             &RunConfig::cuda_graphs, false));
}

// Of one process, whose gradients wait for no others.
void add_updates(std::vector<Technique>& rows, const RunConfig& run, DType held, const Target& target) {
  if (run.num_processes > 1) return;
  rows.push_back(setting_row("updates", "", "", &RunConfig::optimizer_in_backward, false));
  const bool clipped = run.max_grad_norm > 0;
  rows.push_back({"updates", "updates in the backward pass", clipped ? "gradients are not clipped" : "the same result",
                  [=](RunConfig changed) -> std::optional<RunConfig> {
                    if (arch::precision_of(changed, held).computed == DType::kF16) return std::nullopt;
                    changed.optimizer_in_backward = true;
                    changed.max_grad_norm = 0;
                    return changed;
                  }});
  if (target.device == config::Device::kCuda && !run.optimizer_in_backward) rows.back().turn = Turn::kUntried;
}

// Of one process on a GPU: what a step reads once or twice lies in the host's memory.
void add_host(std::vector<Technique>& rows, const RunConfig& run, const Target& target) {
  if (run.num_processes > 1 || target.device != config::Device::kCuda) return;
  const Turn turn = run.offload_optimizer || run.offload_weights ? Turn::kFirst : Turn::kUntried;
  rows.push_back({"host", "", "", [](RunConfig changed) -> std::optional<RunConfig> {
                    changed.offload_optimizer = changed.offload_weights = false;
                    return changed;
                  }});
  rows.push_back(
      {"host", "optimizer states in the host's memory", "the same result; each step moves them there and back",
       [](RunConfig changed) -> std::optional<RunConfig> {
         const bool kept = changed.method == config::Method::kFull && config::row_of(changed.optim).reads_betas;
         changed.offload_optimizer = true;
         return kept ? std::optional(changed) : std::nullopt;
       },
       turn});
  rows.push_back({"host", "layers in the host's memory", "the same result; each pass brings them",
                  [](RunConfig changed) -> std::optional<RunConfig> {
                    changed.offload_weights = true;
                    return changed.method == config::Method::kLora ? std::optional(changed) : std::nullopt;
                  },
                  turn});
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
    if (accumulation > config::kMostAccumulated) return;
    rows.push_back({"batch", std::to_string(batch) + " × " + std::to_string(accumulation) + " accumulated",
                    "the same effective batch", [=](RunConfig changed) -> std::optional<RunConfig> {
                      changed.per_device_train_batch_size = batch;
                      changed.gradient_accumulation_steps = accumulation;
                      return config::is_consistent(changed) ? std::optional(changed) : std::nullopt;
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

UpdateChange update_change(const RunConfig& from, const RunConfig& to) {
  const bool adamw = config::row_of(from.optim).is_adamw && config::row_of(to.optim).is_adamw;
  if (from.optim != to.optim && !adamw) return UpdateChange::kAnother;
  if (from.max_grad_norm > 0 && to.max_grad_norm == 0) return UpdateChange::kUnclipped;
  return from.optim == to.optim ? UpdateChange::kNone : UpdateChange::kRounded;
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

std::vector<Technique> techniques(const arch::Run& run, const Target& target) {
  const DType narrow = narrow_type(run.config, target);
  const DType held = run.architecture.dtype_in_use();
  const std::string bits = narrow == DType::kF16 ? "FP16" : "BF16";
  const auto precision = [&](const std::string& name, const std::string& note, const Precision& to) {
    return precision_row(held, narrow, name, note, to);
  };
  std::vector<Technique> rows;
  if (!run.architecture.quantized)
    rows.push_back({"method", "full training", "every weight is trained", full_training});
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
  add_quantized_bases(rows, run, narrow);
  add_optimizers(rows, run.config);
  rows.insert(
      rows.end(),
      {setting_row("checkpointing", "no checkpointing", "the same result", &RunConfig::gradient_checkpointing, false),
       setting_row("checkpointing", "checkpointing", "the same result; the forward pass is computed twice",
                   &RunConfig::gradient_checkpointing, true),
       setting_row("attention", "flash attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kFlash),
       setting_row("attention", "math attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kMath)});
  add_chunks(rows, run.config);
  add_evaluations(rows, run.config);
  add_graphs(rows, run.config);
  add_updates(rows, run.config, held, target);
  add_host(rows, run.config, target);
  add_strategies(rows, run.config, target.gpus_per_node);
  add_batches(rows, run.config);
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
