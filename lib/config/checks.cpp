// One table for keys that other keys switch off, one for values that exclude each other (exclusions.h), and the few
// rules that fit into no table.
#include "config/checks.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <utility>

#include "config/exclusions.h"
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

const std::string kWithBetas = optimizers(&OptimizerRow::reads_betas, true);

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
    {"beta", "objective", "objective: dpo or simpo", kLearnsPreferences},
    {"loss_type", "objective", "objective: dpo", kIsDpo},
    {"simpo_gamma", "objective", "objective: simpo", kIsSimpo},
    {"label_smoothing", "loss_type", "loss_type: cdpo, robust or exo_pair", kReadsSmoothing},
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

void check_exclusions(const RunConfig& run, Checker& checker) {
  for (const Exclusion& exclusion : exclusions()) {
    const auto sound = [&](std::string_view key) { return key.empty() || checker.sound(key); };
    const bool all_sound = sound(exclusion.key) && std::all_of(exclusion.beside.begin(), exclusion.beside.end(), sound);
    if (!all_sound || !exclusion.broken(run)) continue;
    checker.refuse(exclusion.key,
                   {std::string(exclusion.expected), find_key(exclusion.key)->get(run), std::string(exclusion.remedy)});
  }
}

void check_copies(const RunConfig& run, Checker& checker) {
  const int64_t copies = run.dp_replicate_size, shards = run.dp_shard_size;
  const bool fit = shards == 0 ? run.num_processes % copies == 0 : run.num_processes == copies * shards;
  if (!kIsFsdp(run) || fit) return;
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

}  // namespace

void check_together(const RunConfig& run, const Positions& given, Purpose purpose, Problems& problems) {
  Checker checker(given, problems);
  check_needs(run, purpose, checker);
  check_conditions(run, checker);
  check_evaluation(run, purpose, checker);
  check_exclusions(run, checker);
  if (run.num_processes > 1) check_copies(run, checker);  // else a launcher may say how many there are
  if (run.warmup_steps > 1 && run.warmup_steps != std::floor(run.warmup_steps) && checker.sound("warmup_steps")) {
    checker.refuse("warmup_steps",
                   {"a whole number of steps, or a share below 1", find_key("warmup_steps")->get(run), ""});
  }
}

bool is_consistent(const RunConfig& run) {
  const std::span<const Exclusion> all = exclusions();
  return std::none_of(all.begin(), all.end(), [&](const Exclusion& exclusion) { return exclusion.broken(run); });
}

std::string rules_page() {
  std::string page;
  for (const Condition& condition : kConditions) {
    page.append("- `").append(condition.key).append("` only with `").append(condition.needed).append("`.\n");
  }
  for (const Exclusion& exclusion : exclusions()) {
    page.append("- `").append(exclusion.key).append("` is ").append(exclusion.expected).append(".\n");
  }
  return page;
}

bool applies(std::string_view key, const RunConfig& run) {
  return std::all_of(std::begin(kConditions), std::end(kConditions),
                     [&](const Condition& condition) { return condition.key != key || condition.holds(run); });
}

}  // namespace fathom::config
