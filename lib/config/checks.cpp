// One table for keys that other keys switch off, and the few rules that fit into no table.
#include "config/checks.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <utility>

#include "config/keys.h"
#include "config/names.h"

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
constexpr auto kMixesMoments = [](const RunConfig& run) {
  return is_adamw(run.optim) || run.optim == Optimizer::kLion;
};
constexpr auto kIsAdamW = [](const RunConfig& run) { return is_adamw(run.optim); };
constexpr auto kIsFull = [](const RunConfig& run) { return run.method == Method::kFull; };
constexpr auto kStoresBf16 = [](const RunConfig& run) { return run.dtype == DType::kBF16; };
constexpr auto kEvaluatesBySteps = [](const RunConfig& run) { return run.eval_strategy == Cadence::kSteps; };
constexpr auto kEvaluates = [](const RunConfig& run) { return run.eval_strategy != Cadence::kNo; };
constexpr auto kSavesBySteps = [](const RunConfig& run) { return run.save_strategy == Cadence::kSteps; };
constexpr auto kSaves = [](const RunConfig& run) {
  return run.save_strategy != Cadence::kNo || run.load_best_model_at_end;
};

constexpr Condition kConditions[] = {
    {"lora_r", "method", "method: lora", kIsLora},
    {"lora_alpha", "method", "method: lora", kIsLora},
    {"lora_dropout", "method", "method: lora", kIsLora},
    {"use_rslora", "method", "method: lora", kIsLora},
    {"target_modules", "method", "method: lora", kIsLora},
    {"modules_to_save", "method", "method: lora", kIsLora},
    {"adapter_name_or_path", "method", "method: lora", kIsLora},
    {"load_in_8bit", "method", "method: lora", kIsLora},
    {"load_in_4bit", "method", "method: lora", kIsLora},
    {"load_in_fp8", "method", "method: lora", kIsLora},
    {"bnb_4bit_use_double_quant", "load_in_4bit", "load_in_4bit: true", kIsIn4Bit},
    {"qat_activations", "qat", "qat: int8 or int4", kIsQat},
    {"master_weights", "method", "method: full", kIsFull},
    {"master_weights", "dtype", "dtype: bfloat16", kStoresBf16},
    {"adam_beta1", "optim", "optim: adamw, adamw_8bit, adamw_bf16 or lion", kMixesMoments},
    {"adam_beta2", "optim", "optim: adamw, adamw_8bit, adamw_bf16 or lion", kMixesMoments},
    {"adam_epsilon", "optim", "optim: adamw, adamw_8bit or adamw_bf16", kIsAdamW},
    {"eval_steps", "eval_strategy", "eval_strategy: steps", kEvaluatesBySteps},
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
    const Key* governor = find_key(condition.governor);
    checker.refuse(condition.key, {"this key only with " + std::string(condition.needed),
                                   std::string(condition.governor) + ": " + governor->get(run),
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
  if (run.eval_on_start && checker.sound("eval_on_start")) {
    checker.refuse("eval_on_start",
                   {"false without a validation_file", "true", "add validation_file: … or validation_split: …"});
  }
}

// A base has one format; the later of two keys is refused.
void check_base(const RunConfig& run, Checker& checker) {
  const std::pair<std::string_view, bool> formats[] = {
      {"load_in_8bit", run.load_in_8bit}, {"load_in_4bit", run.load_in_4bit}, {"load_in_fp8", run.load_in_fp8}};
  std::string_view first;
  for (const auto& [key, on] : formats) {
    if (!on) continue;
    if (first.empty()) {
      first = key;
    } else if (checker.sound(first) && checker.sound(key)) {
      checker.refuse(key, {"false with " + std::string(first) + ": true", "true", "remove one of them"});
    }
  }
}

// What is rounded is a weight in numbers, with its adapter merged into it.
void check_qat(const RunConfig& run, Checker& checker) {
  if (run.qat == Qat::kNone || !checker.sound("qat")) return;
  const std::string with_qat = " with qat: " + std::string(name_of(run.qat));
  const std::pair<std::string_view, bool> stored[] = {
      {"load_in_8bit", run.load_in_8bit}, {"load_in_4bit", run.load_in_4bit}, {"load_in_fp8", run.load_in_fp8}};
  for (const auto& [key, on] : stored) {
    if (on && checker.sound(key)) {
      checker.refuse(key, {"false" + with_qat, "true", "remove it: qat rounds weights that it has in numbers"});
    }
  }
  const bool drops = run.method == Method::kLora && run.lora_dropout > 0;
  if (drops && checker.sound("lora_dropout")) {
    checker.refuse("lora_dropout", {"0" + with_qat, find_key("lora_dropout")->get(run),
                                    "remove it: the adapter is merged before it is rounded, and has no input to drop"});
  }
}

// Weights are trained in FP32, or in BF16 without autocast; two formats of 16 bits do not meet.
void check_precision(const RunConfig& run, Checker& checker) {
  const auto all_sound = [&](std::initializer_list<std::string_view> keys) {
    return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) { return checker.sound(key); });
  };
  const bool full = run.method == Method::kFull;
  if (run.bf16 && run.fp16 && all_sound({"bf16", "fp16"})) {
    checker.refuse("fp16", {"false with bf16: true", "true", "remove one of them"});
  }
  if (full && run.dtype == DType::kF16 && all_sound({"dtype", "method"})) {
    checker.refuse("dtype", {"float32 or bfloat16 with method: full", "float16",
                             "remove it: fp16: true multiplies in float16 over weights in float32"});
  }
  if (full && run.bf16 && run.dtype == DType::kBF16 && all_sound({"bf16", "dtype", "method"})) {
    checker.refuse("bf16", {"false with dtype: bfloat16 and method: full", "true",
                            "remove dtype for float32 weights under autocast, or bf16 for weights in bfloat16 alone"});
  }
  if (run.bf16 && run.dtype == DType::kF16 && all_sound({"bf16", "dtype", "method"})) {
    checker.refuse("bf16", {"false with dtype: float16", "true", "write fp16: true, or dtype: bfloat16"});
  }
  if (run.fp16 && run.dtype == DType::kBF16 && all_sound({"fp16", "dtype"})) {
    checker.refuse("fp16", {"false with dtype: bfloat16", "true", "write bf16: true, or dtype: float32"});
  }
  if (run.fp16 && run.cuda_kernels && all_sound({"fp16", "cuda_kernels"})) {
    checker.refuse("cuda_kernels", {"false with fp16: true", "true", "remove it: these kernels take FP32 and BF16"});
  }
  if (run.tf32 && run.device == Device::kCpu && all_sound({"tf32", "device"})) {
    checker.refuse("tf32", {"false with device: cpu", "true", "remove it: TF32 is a GPU's"});
  }
}

// Weights that are rounded in a way of their own need an optimizer that rounds them so.
void check_masters(const RunConfig& run, Checker& checker) {
  if (run.master_weights == MasterWeights::kNone || is_adamw(run.optim)) return;
  if (!checker.sound("master_weights") || !checker.sound("optim")) return;
  checker.refuse("master_weights",
                 {"none with optim: " + std::string(name_of(run.optim)), std::string(name_of(run.master_weights)),
                  "remove it, or set optim: adamw, adamw_8bit or adamw_bf16"});
}

void check_data(const RunConfig& run, Checker& checker) {
  const auto both_sound = [&](std::string_view a, std::string_view b) { return checker.sound(a) && checker.sound(b); };
  if (run.validation_split > 0 && !run.validation_file.empty() && both_sound("validation_split", "validation_file")) {
    checker.refuse("validation_split",
                   {"0 beside validation_file", find_key("validation_split")->get(run), "remove one of them"});
  }
  if (run.packing && run.group_by_length && both_sound("packing", "group_by_length")) {
    checker.refuse("group_by_length", {"false with packing: true", "true", "remove it: packed rows have no padding"});
  }
  if (run.packing && run.pad_to_multiple_of > 0 && both_sound("packing", "pad_to_multiple_of")) {
    checker.refuse("pad_to_multiple_of", {"0 with packing: true", find_key("pad_to_multiple_of")->get(run),
                                          "remove it: packed rows have no padding"});
  }
  if (run.assistant_only_loss && run.completion_only_loss == true &&
      both_sound("assistant_only_loss", "completion_only_loss")) {
    checker.refuse("assistant_only_loss", {"false beside completion_only_loss: true", "true", "remove one of them"});
  }
  if (run.group_by_length && !run.shuffle && both_sound("group_by_length", "shuffle")) {
    checker.refuse("group_by_length", {"false with shuffle: false", "true", "remove one of them"});
  }
}

}  // namespace

void check_together(const RunConfig& run, const Positions& given, Purpose purpose, Problems& problems) {
  Checker checker(given, problems);
  check_needs(run, purpose, checker);
  check_conditions(run, checker);
  check_evaluation(run, purpose, checker);
  check_base(run, checker);
  check_qat(run, checker);
  check_masters(run, checker);
  check_data(run, checker);
  if (run.warmup_steps > 1 && run.warmup_steps != std::floor(run.warmup_steps) && checker.sound("warmup_steps")) {
    checker.refuse("warmup_steps",
                   {"a whole number of steps, or a share below 1", find_key("warmup_steps")->get(run), ""});
  }
  check_precision(run, checker);
}

bool applies(std::string_view key, const RunConfig& run) {
  return std::all_of(std::begin(kConditions), std::end(kConditions),
                     [&](const Condition& condition) { return condition.key != key || condition.holds(run); });
}

}  // namespace fathom::config
