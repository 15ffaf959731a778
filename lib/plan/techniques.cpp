// The table of techniques. What a row does is a function of the run alone, so that rows combine freely.
#include "plan/techniques.h"

#include <cstdint>

#include "base/bytes.h"
#include "config/checks.h"
#include "config/keys.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

using config::RunConfig;

RunConfig with_plain_base(RunConfig run) {
  run.load_in_8bit = run.load_in_4bit = run.load_in_fp8 = run.bnb_4bit_use_double_quant = false;
  return run;
}

std::optional<RunConfig> full_training(RunConfig run) {
  if (run.dtype == DType::kF16) return std::nullopt;  // of a frozen base alone
  const RunConfig plain;
  run.method = config::Method::kFull;
  run.lora_r = plain.lora_r;
  run.lora_alpha = plain.lora_alpha;
  run.lora_dropout = plain.lora_dropout;
  run.target_modules = plain.target_modules;
  run.use_rslora = plain.use_rslora;
  run.modules_to_save = plain.modules_to_save;
  run.adapter_name_or_path = plain.adapter_name_or_path;
  return with_plain_base(run);
}

std::optional<RunConfig> lora(RunConfig run) {
  run.method = config::Method::kLora;
  run.master_weights = config::MasterWeights::kNone;
  return run;
}

// The 16 bits that a run may turn to: those that it has, as not every GPU knows BF16.
DType narrow_type(const RunConfig& run) { return run.fp16 ? DType::kF16 : DType::kBF16; }

// Weights of 32 bits or of 16. `dtype` is set only where they would be stored in another type without it.
std::optional<RunConfig> precision(RunConfig run, const model::ModelShape& shape, int64_t bits, bool autocast) {
  const DType narrow = narrow_type(run), stored = bits == 32 ? DType::kF32 : narrow;
  const bool unsound = autocast || narrow == DType::kF16;  // of weights in 16 bits that are trained
  if (run.method == config::Method::kFull && bits == 16 && unsound) return std::nullopt;
  run = with_plain_base(run);
  if (stored != DType::kBF16) run.master_weights = config::MasterWeights::kNone;
  run.bf16 = autocast && narrow == DType::kBF16;
  run.fp16 = autocast && narrow == DType::kF16;
  if (train::storage_dtype(run, shape) != stored) run.dtype = stored;
  return run;
}

// The frozen projections in fewer bits, what stays in 16; a run that has it already is left as it is.
Technique base_row(const model::ModelShape& shape, const char* name, const char* note, bool RunConfig::*load_in) {
  return {"precision", name, note, [=](const RunConfig& run) -> std::optional<RunConfig> {
            if (run.method == config::Method::kFull || run.qat != config::Qat::kNone) return std::nullopt;
            if (run.*load_in) return run;
            std::optional<RunConfig> changed = precision(run, shape, 16, true);
            (*changed).*load_in = true;
            return changed;
          }};
}

Technique precision_row(const model::ModelShape& shape, const std::string& name, const std::string& note, int64_t bits,
                        bool autocast) {
  return {"precision", name, note, [=](const RunConfig& run) { return precision(run, shape, bits, autocast); }};
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

}  // namespace

std::vector<Technique> techniques(const RunConfig& run, const model::ModelShape& shape) {
  const std::string narrow = run.fp16 ? "FP16" : "BF16";
  std::vector<Technique> rows;
  if (!shape.quantized) rows.push_back({"method", "full training", "every weight is trained", full_training});
  rows.insert(
      rows.end(),
      {{"method", "LoRA", "adapters are trained, the weights stay as they are", lora},
       precision_row(shape, "FP32", "everything in FP32", 32, false),
       precision_row(shape, narrow + " autocast", "matrix products in " + narrow + " over FP32 weights", 32, true),
       precision_row(shape, narrow + " weights",
                     "weights, activations and their gradients in " + narrow + ", no FP32 copy", 16, false),
       precision_row(shape, narrow + " weights and autocast",
                     "frozen weights in " + narrow + ", adapters multiply in " + narrow + " too", 16, true)});
  if (!shape.quantized) {
    rows.push_back(base_row(shape, "INT8 base", "frozen projections in 8 bits, the rest in 16: rounded weights",
                            &RunConfig::load_in_8bit));
    rows.push_back(base_row(shape, "NF4 base", "frozen projections in 4 bits, the rest in 16: coarsely rounded weights",
                            &RunConfig::load_in_4bit));
  }
  rows.insert(
      rows.end(),
      {setting_row("checkpointing", "no checkpointing", "the same result", &RunConfig::gradient_checkpointing, false),
       setting_row("checkpointing", "gradient checkpointing", "the same result; the forward pass is computed twice",
                   &RunConfig::gradient_checkpointing, true),
       setting_row("attention", "math attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kMath),
       setting_row("attention", "flash attention", "the same result up to rounding", &RunConfig::attn_implementation,
                   config::Attention::kFlash)});
  add_chunks(rows, run);
  add_batches(rows, run);
  return rows;
}

std::vector<Technique> optimizers() {
  using config::Optimizer;
  const auto row = [](const char* name, const char* note, Optimizer optimizer) {
    return Technique{"optimizer", name, note, [=](RunConfig run) -> std::optional<RunConfig> {
                       run.optim = optimizer;
                       if (!config::is_adamw(optimizer)) run.master_weights = config::MasterWeights::kNone;
                       return run;
                     }};
  };
  return {
      row("AdamW in 8 bits", "the same update, its two moments rounded to 8 bits in blocks", Optimizer::kAdamW8bit),
      row("AdamW in BF16", "the same update, its two moments rounded to BF16", Optimizer::kAdamWBf16),
      row("Adafactor", "another update: one number kept for each row and column of a matrix", Optimizer::kAdafactor),
      row("Lion", "another update, by signs: one number kept instead of two; wants a lower rate", Optimizer::kLion),
      row("SGD", "another update, without momentum: nothing kept; wants a higher rate", Optimizer::kSgd),
  };
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
