// One table for keys that other keys switch off, and the few rules that fit into no table.
#include "config/checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "config/keys.h"
#include "config/names.h"
#include "config/shards.h"

namespace fathom::config {
namespace {

// `key` matters only where `holds`; `needed` says when that is.
struct Condition {
  std::string_view key;
  std::string_view governor;
  std::string_view needed;
  bool (*holds)(const RunConfig&);
};

constexpr auto kIsLora = [](const RunConfig& run) { return run.method == Method::kLora; };
constexpr auto kIsIn4Bit = [](const RunConfig& run) { return kIsLora(run) && run.load_in_4bit; };
constexpr auto kIsQat = [](const RunConfig& run) { return run.qat != Qat::kNone; };
constexpr auto kReadsBetas = [](const RunConfig& run) { return row_of(run.optim).reads_betas; };
constexpr auto kIsAdamW = [](const RunConfig& run) { return row_of(run.optim).is_adamw; };
constexpr auto kIsFsdp = [](const RunConfig& run) { return run.strategy == Strategy::kFsdp; };
constexpr auto kIsFull = [](const RunConfig& run) { return run.method == Method::kFull; };
constexpr auto kStoresBf16 = [](const RunConfig& run) { return run.dtype == DType::kBF16; };
constexpr auto kEvaluatesBySteps = [](const RunConfig& run) { return run.eval_strategy == Cadence::kSteps; };
constexpr auto kEvaluates = [](const RunConfig& run) { return run.eval_strategy != Cadence::kNo; };
constexpr auto kWritesAnswers = [](const RunConfig& run) { return run.predict_with_generate; };
constexpr auto kSavesBySteps = [](const RunConfig& run) { return run.save_strategy == Cadence::kSteps; };
constexpr auto kSaves = [](const RunConfig& run) {
  return run.save_strategy != Cadence::kNo || run.load_best_model_at_end;
};

// "optim: adamw, adamw_8bit or adamw_bf16", where the trait is so.
template <typename Trait>
std::string optimizers(const Trait& trait, bool holds) {
  std::string text;
  for (const OptimizerRow& row : kOptimizers) {
    if (std::invoke(trait, row) == holds) text.append(text.empty() ? "optim: " : ", ").append(row.name);
  }
  const size_t last = text.rfind(", ");
  return last == std::string::npos ? text : text.replace(last, 2, " or ");
}
const std::string kDivided = optimizers(can_be_divided, true);
const std::string kWithBetas = optimizers(&OptimizerRow::reads_betas, true);
const std::string kAdamWs = optimizers(&OptimizerRow::is_adamw, true);

const Condition kConditions[] = {
    {"dp_replicate_size", "strategy", "strategy: fsdp", kIsFsdp},
    {"dp_shard_size", "strategy", "strategy: fsdp", kIsFsdp},
    {"reshard_after_forward", "strategy", "strategy: fsdp", kIsFsdp},
    {"lora_r", "method", "method: lora", kIsLora},
    {"lora_alpha", "method", "method: lora", kIsLora},
    {"lora_dropout", "method", "method: lora", kIsLora},
    {"use_rslora", "method", "method: lora", kIsLora},
    {"target_modules", "method", "method: lora", kIsLora},
    {"target_parameters", "method", "method: lora", kIsLora},
    {"modules_to_save", "method", "method: lora", kIsLora},
    {"adapter_name_or_path", "method", "method: lora", kIsLora},
    {"load_in_8bit", "method", "method: lora", kIsLora},
    {"load_in_4bit", "method", "method: lora", kIsLora},
    {"load_in_fp8", "method", "method: lora", kIsLora},
    {"offload_weights", "method", "method: lora", kIsLora},
    {"bnb_4bit_use_double_quant", "load_in_4bit", "load_in_4bit: true", kIsIn4Bit},
    {"qat_activations", "qat", "qat: int8 or int4", kIsQat},
    {"master_weights", "method", "method: full", kIsFull},
    {"offload_optimizer", "method", "method: full", kIsFull},
    {"master_weights", "dtype", "dtype: bfloat16", kStoresBf16},
    {"offload_optimizer", "optim", kWithBetas, kReadsBetas},  // those that keep numbers of each weight
    {"adam_beta1", "optim", kWithBetas, kReadsBetas},
    {"adam_beta2", "optim", kWithBetas, kReadsBetas},
    {"adam_epsilon", "optim", kAdamWs, kIsAdamW},
    {"eval_steps", "eval_strategy", "eval_strategy: steps", kEvaluatesBySteps},
    {"generation_max_length", "predict_with_generate", "predict_with_generate: true", kWritesAnswers},
    {"save_steps", "save_strategy", "save_strategy: steps", kSavesBySteps},
    {"save_total_limit", "save_strategy", "save_strategy: steps or epoch", kSaves},
    {"load_best_model_at_end", "eval_strategy", "eval_strategy: steps or epoch", kEvaluates},
    {"early_stopping_patience", "eval_strategy", "eval_strategy: steps or epoch", kEvaluates},
    {"save_in_background", "save_strategy", "save_strategy: steps or epoch", kSaves},
};

class Checker {
 public:
  Checker(const Positions& given, Problems& problems) : given_(given), problems_(problems) {}

  Position position_of(std::string_view key) const {
    const auto found = given_.find(key);
    return found == given_.end() ? Position{} : found->second;
  }
  bool is_given(std::string_view key) const { return given_.count(key) > 0; }
  bool sound(std::string_view key) const { return !problems_.concern(key); }
  void refuse(std::string_view key, const Mismatch& mismatch) { problems_.add(position_of(key), key, mismatch); }
  // Where reading stopped early, what is missing may stand behind.
  bool read_to_the_end() const { return !problems_.concern(""); }
  void require(std::string_view key, bool present, const std::string& purpose) {
    if (present || !sound(key)) return;
    problems_.add({}, key,
                  {"a " + find_key(key)->type + " for " + purpose, "nothing", "add " + std::string(key) + ": …"});
  }

 private:
  const Positions& given_;
  Problems& problems_;
};

void check_needs(const RunConfig& run, Purpose purpose, Checker& checker) {
  if (!checker.read_to_the_end()) return;
  checker.require("model_name_or_path", !run.model_name_or_path.empty(), "every run");
  if (purpose == Purpose::kTrain) {
    checker.require("train_file", !run.train_file.empty(), "train");
    checker.require("output_dir", !run.output_dir.empty(), "train");
  }
  const bool held_out = run.validation_split > 0 && !run.train_file.empty();
  if (purpose == Purpose::kEvaluate && !held_out) {
    checker.require("validation_file", !run.validation_file.empty(), "eval");
  }
}

// A key that means nothing beside the others was meant to: refused, unless the command line switched it off on purpose.
void check_conditions(const RunConfig& run, Checker& checker) {
  for (const Condition& condition : kConditions) {
    if (!checker.is_given(condition.key) || condition.holds(run)) continue;
    if (!checker.sound(condition.key) || !checker.sound(condition.governor)) continue;
    const bool switched_off =
        checker.position_of(condition.governor).on_command_line && !checker.position_of(condition.key).on_command_line;
    if (switched_off) continue;
    const std::string value = find_key(condition.governor)->get(run);
    checker.refuse(condition.key, {"this key only with " + std::string(condition.needed),
                                   value == "null" ? "no " + std::string(condition.governor)
                                                   : std::string(condition.governor) + ": " + value,
                                   "remove it, or set " + std::string(condition.needed)});
  }
}

void check_evaluation(const RunConfig& run, Purpose purpose, Checker& checker) {
  const bool evaluates = !run.validation_file.empty() || run.validation_split > 0;
  if (purpose == Purpose::kEvaluate || evaluates || !checker.sound("validation_file")) return;
  if (run.eval_strategy != Cadence::kNo && checker.sound("eval_strategy")) {
    checker.refuse("eval_strategy", {"no without a validation_file", std::string(name_of(run.eval_strategy)),
                                     "add validation_file: … or validation_split: …"});
  }
  for (const auto& [key, given] :
       {std::pair{"eval_on_start", run.eval_on_start}, std::pair{"predict_with_generate", run.predict_with_generate}}) {
    if (!given || !checker.sound(key)) continue;
    checker.refuse(key, {"false without a validation_file", "true", "add validation_file: … or validation_split: …"});
  }
}

// `key` must be as `expected` says; `broken` tells when it is not. Only where the keys of `beside` are sound
// themselves.
struct Exclusion {
  std::string_view key;
  std::array<std::string_view, 2> beside;
  std::string_view expected;
  std::string_view remedy;
  bool (*broken)(const RunConfig&);
};

constexpr auto kIsFp16 = [](const RunConfig& run) { return run.dtype == DType::kF16; };

const std::string kNoneWithOthers = "none with " + optimizers(&OptimizerRow::is_adamw, false);
const std::string kNotDivided = "not " + optimizers(can_be_divided, false).substr(7) +
                                ", whose means are of whole rows and columns, with strategy: fsdp";
const std::string kSetDivided = "set " + kDivided + ", or strategy: ddp";
const std::string kRemoveOrAdamW = "remove it, or set " + kAdamWs;

const Exclusion kExclusions[] = {
    // A base has one format.
    {"load_in_4bit",
     {"load_in_8bit"},
     "false with load_in_8bit: true",
     "remove one of them",
     [](const RunConfig& run) { return run.load_in_4bit && run.load_in_8bit; }},
    {"load_in_fp8",
     {"load_in_8bit"},
     "false with load_in_8bit: true",
     "remove one of them",
     [](const RunConfig& run) { return run.load_in_fp8 && run.load_in_8bit; }},
    {"load_in_fp8",
     {"load_in_4bit"},
     "false with load_in_4bit: true",
     "remove one of them",
     [](const RunConfig& run) { return run.load_in_fp8 && run.load_in_4bit; }},
    // What is rounded is a weight in numbers, with its adapter merged into it.
    {"load_in_8bit",
     {"qat"},
     "false with qat: int8 or int4",
     "remove it: qat rounds weights that it has in numbers",
     [](const RunConfig& run) { return run.load_in_8bit && kIsQat(run); }},
    {"load_in_4bit",
     {"qat"},
     "false with qat: int8 or int4",
     "remove it: qat rounds weights that it has in numbers",
     [](const RunConfig& run) { return run.load_in_4bit && kIsQat(run); }},
    {"load_in_fp8",
     {"qat"},
     "false with qat: int8 or int4",
     "remove it: qat rounds weights that it has in numbers",
     [](const RunConfig& run) { return run.load_in_fp8 && kIsQat(run); }},
    {"fp8",
     {"qat"},
     "false with qat: int8 or int4",
     "remove it: qat rounds weights that it has in numbers",
     [](const RunConfig& run) { return run.fp8 && kIsQat(run); }},
    {"lora_dropout",
     {"qat"},
     "0 with qat: int8 or int4",
     "remove it: the adapter is merged before it is rounded, and has no input to drop",
     [](const RunConfig& run) { return kIsLora(run) && run.lora_dropout > 0 && kIsQat(run); }},
    // Weights that are rounded in a way of their own need an optimizer that rounds them so.
    {"master_weights",
     {"optim"},
     kNoneWithOthers,
     kRemoveOrAdamW,
     [](const RunConfig& run) { return run.master_weights != MasterWeights::kNone && !kIsAdamW(run); }},
    {"validation_split",
     {"validation_file"},
     "0 beside validation_file",
     "remove one of them",
     [](const RunConfig& run) { return run.validation_split > 0 && !run.validation_file.empty(); }},
    {"group_by_length",
     {"packing"},
     "false with packing: true",
     "remove it: packed rows have no padding",
     [](const RunConfig& run) { return run.group_by_length && run.packing; }},
    {"pad_to_multiple_of",
     {"packing"},
     "0 with packing: true",
     "remove it: packed rows have no padding",
     [](const RunConfig& run) { return run.pad_to_multiple_of > 0 && run.packing; }},
    // A recording reads and writes the same memory in every step.
    {"cuda_graphs",
     {"packing"},
     "false with packing: true",
     "remove it: packed batches differ in their documents; or pad, with pad_to_multiple_of",
     [](const RunConfig& run) { return run.cuda_graphs && run.packing; }},
    {"cuda_graphs",
     {"gradient_accumulation_steps"},
     "false with gradient_accumulation_steps above 1",
     "remove it, or take the batch of a step at once",
     [](const RunConfig& run) { return run.cuda_graphs && run.gradient_accumulation_steps > 1; }},
    {"offload_optimizer",
     {"device"},
     "false with device: cpu",
     "remove it: the states of a run on the CPU lie in the host's memory",
     [](const RunConfig& run) { return run.offload_optimizer && run.device == Device::kCpu; }},
    {"offload_weights",
     {"device"},
     "false with device: cpu",
     "remove it: the weights of a run on the CPU lie in the host's memory",
     [](const RunConfig& run) { return run.offload_weights && run.device == Device::kCpu; }},
    {"offload_weights",
     {"cuda_graphs"},
     "false with cuda_graphs: true",
     "remove one of them: recorded layers read their weights where these were",
     [](const RunConfig& run) { return run.offload_weights && run.cuda_graphs; }},
    // No gradient waits for the others, or for more of itself.
    {"max_grad_norm",
     {"optimizer_in_backward"},
     "0 with optimizer_in_backward: true",
     "remove one of them: no gradient is left to scale once the norm of all is known",
     [](const RunConfig& run) { return run.optimizer_in_backward && run.max_grad_norm > 0; }},
    {"optimizer_in_backward",
     {"gradient_accumulation_steps"},
     "false with gradient_accumulation_steps above 1",
     "remove one of them: gradients that are let go do not add up",
     [](const RunConfig& run) { return run.optimizer_in_backward && run.gradient_accumulation_steps > 1; }},
    {"optimizer_in_backward",
     {"cuda_graphs"},
     "false with cuda_graphs: true",
     "remove one of them: recorded layers make all gradients anew in the same place",
     [](const RunConfig& run) { return run.optimizer_in_backward && run.cuda_graphs; }},
    {"assistant_only_loss",
     {"completion_only_loss"},
     "false beside completion_only_loss: true",
     "remove one of them",
     [](const RunConfig& run) { return run.assistant_only_loss && run.completion_only_loss == true; }},
    {"group_by_length",
     {"shuffle"},
     "false with shuffle: false",
     "remove one of them",
     [](const RunConfig& run) { return run.group_by_length && !run.shuffle; }},
    // Weights are trained in FP32, or in BF16 without autocast; two formats of 16 bits do not meet.
    {"fp16",
     {"bf16"},
     "false with bf16: true",
     "remove one of them",
     [](const RunConfig& run) { return run.bf16 && run.fp16; }},
    {"dtype",
     {"method"},
     "float32 or bfloat16 with method: full",
     "remove it: fp16: true multiplies in float16 over weights in float32",
     [](const RunConfig& run) { return kIsFull(run) && kIsFp16(run); }},
    {"bf16",
     {"dtype", "method"},
     "false with dtype: bfloat16 and method: full",
     "remove dtype for float32 weights under autocast, or bf16 for weights in bfloat16 alone",
     [](const RunConfig& run) { return kIsFull(run) && run.bf16 && kStoresBf16(run); }},
    {"bf16",
     {"dtype", "method"},
     "false with dtype: float16",
     "write fp16: true, or dtype: bfloat16",
     [](const RunConfig& run) { return run.bf16 && kIsFp16(run); }},
    {"fp16",
     {"dtype"},
     "false with dtype: bfloat16",
     "write bf16: true, or dtype: float32",
     [](const RunConfig& run) { return run.fp16 && kStoresBf16(run); }},
    {"optim",
     {"strategy"},
     kNotDivided,
     kSetDivided,
     [](const RunConfig& run) { return kIsFsdp(run) && !can_be_divided(row_of(run.optim)); }},
    {"tf32",
     {"device"},
     "false with device: cpu",
     "remove it: TF32 is a GPU's",
     [](const RunConfig& run) { return run.tf32 && run.device == Device::kCpu; }},
};

void check_exclusions(const RunConfig& run, Checker& checker) {
  for (const Exclusion& exclusion : kExclusions) {
    const auto sound = [&](std::string_view key) { return key.empty() || checker.sound(key); };
    const bool all_sound = sound(exclusion.key) && std::all_of(exclusion.beside.begin(), exclusion.beside.end(), sound);
    if (!all_sound || !exclusion.broken(run)) continue;
    checker.refuse(exclusion.key,
                   {std::string(exclusion.expected), find_key(exclusion.key)->get(run), std::string(exclusion.remedy)});
  }
}

}  // namespace

void check_together(const RunConfig& run, const Positions& given, Purpose purpose, Problems& problems) {
  Checker checker(given, problems);
  check_needs(run, purpose, checker);
  check_conditions(run, checker);
  check_evaluation(run, purpose, checker);
  check_exclusions(run, checker);
  if (run.num_processes > 1) check_copies(run, given, problems);  // else a launcher may say how many there are
  if (run.warmup_steps > 1 && run.warmup_steps != std::floor(run.warmup_steps) && checker.sound("warmup_steps")) {
    checker.refuse("warmup_steps",
                   {"a whole number of steps, or a share below 1", find_key("warmup_steps")->get(run), ""});
  }
}

void check_copies(const RunConfig& run, const Positions& given, Problems& problems) {
  const int64_t copies = run.dp_replicate_size, shards = run.dp_shard_size;
  const bool fit = shards == 0 ? run.num_processes % copies == 0 : run.num_processes == copies * shards;
  if (!kIsFsdp(run) || fit) return;
  Checker checker(given, problems);
  for (const char* key : {"strategy", "num_processes", "dp_replicate_size", "dp_shard_size"}) {
    if (!checker.sound(key)) return;
  }
  const std::string processes = std::to_string(run.num_processes);
  if (shards == 0) {
    checker.refuse("dp_replicate_size", {"copies that share num_processes, " + processes + ", evenly",
                                         std::to_string(copies), "set a divisor of " + processes});
  } else {
    checker.refuse("dp_shard_size",
                   {"dp_replicate_size times dp_shard_size to be num_processes, " + processes,
                    std::to_string(copies) + " times " + std::to_string(shards), "remove dp_shard_size, or set both"});
  }
}

bool is_consistent(const RunConfig& run) {
  return std::none_of(std::begin(kExclusions), std::end(kExclusions),
                      [&](const Exclusion& exclusion) { return exclusion.broken(run); });
}

std::string rules_page() {
  std::string page;
  for (const Condition& condition : kConditions) {
    page.append("- `").append(condition.key).append("` only with `").append(condition.needed).append("`.\n");
  }
  for (const Exclusion& exclusion : kExclusions) {
    page.append("- `").append(exclusion.key).append("` is ").append(exclusion.expected).append(".\n");
  }
  return page;
}

bool applies(std::string_view key, const RunConfig& run) {
  return std::all_of(std::begin(kConditions), std::end(kConditions),
                     [&](const Condition& condition) { return condition.key != key || condition.holds(run); });
}

}  // namespace fathom::config
