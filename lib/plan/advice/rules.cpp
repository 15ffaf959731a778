// Multiplies parameters by the rules' bytes, compares, and says what the rules leave out.
#include "plan/advice/rules.h"

#include <array>
#include <cstdio>

#include "base/bytes.h"
#include "base/rounding.h"

namespace fathom::plan {
namespace {

using memory::Component;

constexpr int64_t kLargeModel = 50'000'000'000;
constexpr int64_t kGigabyte = 1'000'000'000;

// For which runs a rule is meant.
enum class Runs { kFull, kFullIn16Bits, kFullWith8BitStates, kLora, kQuantized, kIn8Bits, kIn4Bits, kNone };

struct Rule {
  const char* name;
  int64_t quarters;  // of a byte per parameter
  Runs runs;
  const char* counts;  // what is in it
};

constexpr std::array<Rule, 4> kLoading = {{
    {"FP32 weights load in 4 bytes per parameter", 16, Runs::kFull, "weights of 32 bits"},
    {"16-bit weights load in 2 bytes per parameter", 8, Runs::kFullIn16Bits, "weights of 16 bits"},
    {"8-bit weights load in 1 byte per parameter", 4, Runs::kIn8Bits, "weights of 8 bits, without their scales"},
    {"4-bit weights load in half a byte per parameter", 2, Runs::kIn4Bits, "weights of 4 bits, without their scales"},
}};

// The rules of LLaMA-Factory are the last column ("x B") of "Hardware Requirement" in its README.
constexpr std::array<Rule, 14> kTraining = {{
    {"training takes 16 bytes per parameter", 64, Runs::kFull,
     "weights 4, and 12 to train: gradients 4, AdamW's moments 8; nothing of a batch"},
    {"training takes 24 bytes per parameter", 96, Runs::kFull,
     "weights 4, and 20 to train: gradients 4, moments 8, and 8 for activations and buffers of any batch"},
    {"training takes six times the weights", 0, Runs::kFull,
     "gradients, moments and activations as copies of the weights"},
    {"training takes twenty times the weights: 80 GB per billion", 320, Runs::kNone,
     "80 GB for each billion of parameters, activations and buffers of large batches among them"},
    {"training in 16 bits takes half of 24: 12 bytes per parameter", 48, Runs::kFullIn16Bits,
     "everything halved: weights, gradients, moments, activations"},
    {"training with an 8-bit AdamW takes 10 bytes per parameter", 40, Runs::kFullWith8BitStates,
     "weights 4, gradients 4, moments 2, without their scales; nothing of a batch"},
    {"mixed precision takes 18 bytes per parameter", 72, Runs::kNone,
     "16-bit copies of weights beside FP32 ones, gradients and moments in FP32; nothing of a batch"},
    {"training a quantized billion takes 2 GB", 8, Runs::kQuantized, "a frozen base of 8 or 4 bits with adapters"},
    {"training a quantized billion takes 4 GB", 16, Runs::kQuantized, "a frozen base of 8 or 4 bits with adapters"},
    {"LLaMA-Factory, full training under AMP: 18 GB per billion", 72, Runs::kNone,
     "weights, gradients and states; nothing of a batch"},
    {"LLaMA-Factory, full training in pure BF16: 8 GB per billion", 32, Runs::kFullIn16Bits,
     "weights, gradients and both moments of 16 bits; nothing of a batch"},
    {"LLaMA-Factory, LoRA or freezing: 2 GB per billion", 8, Runs::kLora, "weights of 16 bits; nothing of a batch"},
    {"LLaMA-Factory, QLoRA of 8 bits: 1 GB per billion", 4, Runs::kIn8Bits, "weights of 8 bits; nothing of a batch"},
    {"LLaMA-Factory, QLoRA of 4 bits: 0.5 GB per billion", 2, Runs::kIn4Bits, "weights of 4 bits; nothing of a batch"},
}};

std::string decimal(double number) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), number < 0.1 && number > 0 ? "%.2g" : "%.1f", number);
  return text.data();
}

class Comparer {
 public:
  explicit Comparer(const Comparison& comparison)
      : workload_(comparison.plan.workload),
        parameters_(divide_up(workload_.parameters, workload_.shares)),
        memory_(comparison.measured ? comparison.measured->memory : comparison.plan.dry_run),
        weights_(memory_.at_peak[Component::kWeights]),
        lora_(!workload_.trains_all()),
        known_(memory_.peak > 0 && parameters_ > 0),
        in_16_bits_(known_ && each(weights_) < 3) {}

  void add_loading(const Rule& rule) {
    const bool plain =
        !workload_.base && (rule.runs == Runs::kFullIn16Bits ? in_16_bits_ : rule.runs == Runs::kFull && !in_16_bits_);
    const bool meant = known_ && (plain || is_of_base(rule.runs));
    const std::string here = known_ ? "the weights take " + decimal(each(weights_)) + " bytes a parameter" : "";
    add(rule.name, bytes_of(rule), weights_, "weights", meant, rule.counts, here);
  }
  void add_training(const Rule& rule) {
    // Six times the weights is a rule of weights as they are stored; four bytes where no run says more.
    const int64_t bytes =
        rule.quarters > 0 ? bytes_of(rule) : checked_multiply(6, known_ ? weights_ : bytes_of(kLoading[0]), rule.name);
    const bool full =
        !lora_ && (rule.runs == Runs::kFullIn16Bits ? in_16_bits_ : rule.runs == Runs::kFull && !in_16_bits_);
    const bool with_8_bits = !lora_ && !in_16_bits_ && has_8_bit_states() && rule.runs == Runs::kFullWith8BitStates;
    const bool lora = lora_ && !workload_.base && rule.runs == Runs::kLora;
    add(rule.name, bytes, memory_.peak, "peak", known_ && (full || with_8_bits || lora || is_of_base(rule.runs)),
        rule.counts, here());
  }
  void add_largest() {
    add("from 50 billion parameters on: up to 500 times the 80 GB of a billion", 500 * (80 * kGigabyte), memory_.peak,
        "peak", false, "500 times a model of a billion, whatever the model", here());
  }
  std::vector<RuleOfThumb> take() { return std::move(rules_); }

 private:
  void add(const char* name, int64_t bytes, int64_t figure, const char* against, bool meant, const char* counts,
           std::string here) {
    const double error = figure == 0 ? 0 : static_cast<double>(bytes - figure) / static_cast<double>(figure);
    rules_.push_back({name, bytes, error, against, meant, counts, std::move(here)});
  }
  // Whether the rule is of a base that is stored as this run's.
  bool is_of_base(Runs runs) const {
    if (!workload_.base) return false;
    return runs == Runs::kQuantized || runs == (quant::is_in_4_bits(*workload_.base) ? Runs::kIn4Bits : Runs::kIn8Bits);
  }
  // Two bytes a trained parameter and a little, where FP32 moments have eight.
  bool has_8_bit_states() const {
    const double states = static_cast<double>(memory_.at_peak[Component::kOptimizerStates]);
    const double trained = static_cast<double>(workload_.trained_parameters) / static_cast<double>(workload_.shares);
    return states > 1.9 * trained && states < 2.5 * trained;
  }
  int64_t bytes_of(const Rule& rule) const { return checked_multiply(parameters_, rule.quarters, rule.name) / 4; }
  double each(int64_t bytes) const { return static_cast<double>(bytes) / static_cast<double>(parameters_); }

  // What this run takes, in the rules' own unit.
  std::string here() const {
    if (!known_) return "";
    const int64_t standing =
        weights_ + memory_.at_peak[Component::kGradients] + memory_.at_peak[Component::kOptimizerStates];
    std::string text = decimal(each(memory_.peak)) + " bytes a parameter at the peak, " + decimal(each(standing)) +
                       " of them weights, gradients and moments";
    if (lora_) {
      text += " (only " + decimal(100 * each(workload_.trained_parameters / workload_.shares)) +
              " % of the parameters are trained)";
    }
    return text + ", the rest goes with the batch";
  }

  const Workload& workload_;
  const int64_t parameters_;  // of one share
  const memory::Memory& memory_;
  const int64_t weights_;
  const bool lora_, known_, in_16_bits_;
  std::vector<RuleOfThumb> rules_;
};

}  // namespace

std::vector<RuleOfThumb> rules_of_thumb(const Comparison& comparison) {
  Comparer comparer(comparison);
  for (const Rule& rule : kLoading) comparer.add_loading(rule);
  for (const Rule& rule : kTraining) comparer.add_training(rule);
  if (comparison.plan.workload.parameters >= kLargeModel) comparer.add_largest();
  return comparer.take();
}

}  // namespace fathom::plan
