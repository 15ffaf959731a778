// The analytic estimate against the dry run of tiny models, over every precision: 5 % of the peak; exact in weights,
// optimizer states and gradients.
#include <gtest/gtest.h>

#include <cstdlib>

#include "plan/estimate/analytic.h"
#include "play/dry_run.h"
#include "play/make_plan.h"

namespace fathom::play::analytic_dry_run_test {
namespace {

using memory::Component;

struct Case {
  std::string name;
  config::RunConfig config;
  arch::Architecture architecture;
  schedule::StepShape step;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

arch::Architecture grouped_architecture() {
  arch::Architecture architecture;
  architecture.family = "LlamaForCausalLM";
  architecture.vocab_size = 2000;
  architecture.hidden_size = 192;
  architecture.layers.assign(
      5,
      {.mixer = arch::Attention{.heads = 6, .key_value_heads = 2, .head_dim = 32, .rotary = arch::Rotary{.width = 32}},
       .feed_forward = {.width = 520}});
  return architecture;
}

arch::Architecture tied_architecture() {
  arch::Architecture architecture = grouped_architecture();
  architecture.vocab_size = 9000;
  architecture.layers.resize(3);
  for (arch::LayerSpec& layer : architecture.layers) layer.attention().key_value_heads = 6;
  architecture.tie_word_embeddings = true;
  return architecture;
}

// Qwen3's norms and Llama's biases at once, which no family has: each where the other could hide it.
arch::Architecture normed_architecture(bool tied) {
  arch::Architecture architecture = tied ? tied_architecture() : grouped_architecture();
  for (arch::LayerSpec& layer : architecture.layers) {
    layer.attention().input_bias = layer.attention().output_bias = layer.feed_forward.bias = true;
    layer.attention().query_key_norm = arch::QueryKeyNorm::kEachHead;
  }
  return architecture;
}

// As OLMo 2.
arch::Architecture normed_after_architecture() {
  arch::Architecture architecture = grouped_architecture();
  for (arch::LayerSpec& layer : architecture.layers) {
    layer.norms = arch::NormPlacement::kAfter;
    layer.attention().query_key_norm = arch::QueryKeyNorm::kAllHeads;
  }
  return architecture;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto method : {config::Method::kFull, config::Method::kLora}) {
    for (const std::string precision : {"fp32", "autocast", "bf16", "fp16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const auto attention : {config::Attention::kFlash, config::Attention::kMath}) {
          for (const std::string kind : {"grouped", "tied", "grouped_normed", "tied_normed", "normed_after"}) {
            for (const int64_t length : {20, 300, 700}) {
              const bool tied = kind.starts_with("tied");
              Case each;
              each.name = std::string(method == config::Method::kFull ? "full_" : "lora_") + precision +
                          (checkpointing ? "_checkpointing" : "") +
                          (attention == config::Attention::kMath ? "_math" : "_flash") + "_" + kind + "_" +
                          std::to_string(length);
              each.architecture = tied ? tied_architecture() : grouped_architecture();
              if (kind.ends_with("normed")) each.architecture = normed_architecture(tied);
              if (kind == "normed_after") each.architecture = normed_after_architecture();
              each.config.random_init = true;
              each.config.method = method;
              each.config.bf16 = precision == "autocast";
              each.config.fp16 = precision == "fp16";
              each.config.dtype = precision == "bf16" ? DType::kBF16 : DType::kF32;
              if (each.config.fp16 && method == config::Method::kLora) each.config.dtype = DType::kF16;
              each.config.gradient_checkpointing = checkpointing;
              each.config.attn_implementation = attention;
              if (tied) each.config.target_modules = {"all-linear"};
              if (tied && length == 20) each.config.lora_dropout = 0.1;
              each.step = {{!tied && length == 300 ? 4 : 1, length}};
              if (length == 300) each.step.push_back(each.step.front());
              cases.push_back(std::move(each));
            }
          }
        }
      }
    }
  }
  return cases;
}

class AnalyticDryRun : public ::testing::TestWithParam<Case> {};

double relative(int64_t figure, int64_t reference) {
  return static_cast<double>(figure - reference) / static_cast<double>(reference);
}

TEST_P(AnalyticDryRun, AreClose) {
  const Case& each = GetParam();
  const plan::Workload workload =
      plan::make_workload(arch::resolve(each.config, each.architecture), schedule::imagined_schedule({each.step}, {}));
  plan::Target target = cpu_target();
  target.attention_kernel =
      each.config.attn_implementation == config::Attention::kMath ? "math attention" : "flash attention";
  const plan::Analytic analytic =
      plan::estimate_analytic(arch::resolve(each.config, each.architecture), target, workload);
  const memory::Memory dry_run = dry_run_cpu(arch::resolve(each.config, each.architecture), nullptr, workload).memory;
  std::string terms = "analytic, " + analytic.instant + "\n";
  for (const plan::Analytic::Term& term : analytic.terms)
    terms += "  " + std::to_string(term.bytes) + "  " + term.what + ": " + term.formula + "\n";
  EXPECT_LT(std::abs(relative(analytic.peak, dry_run.peak)), 0.05)
      << analytic.peak << " against " << dry_run.peak << "\n"
      << terms;
  for (const Component component : {Component::kWeights, Component::kOptimizerStates, Component::kGradients}) {
    EXPECT_EQ(analytic.maximum[component], dry_run.maximum[component]) << component_name(component);
  }
}

INSTANTIATE_TEST_SUITE_P(Everything, AnalyticDryRun, ::testing::ValuesIn(all_cases()),
                         [](const ::testing::TestParamInfo<Case>& info) { return info.param.name; });

// The fullest batch is not the longest, which comes later.
TEST(AnalyticDryRunOfSteps, HasThePositionsOfTheLongestSequence) {
  config::RunConfig config;
  config.random_init = true;
  const plan::Workload workload = plan::make_workload(
      arch::resolve(config, grouped_architecture()),
      schedule::imagined_schedule({{schedule::whole_batch(9, 60)}, {schedule::whole_batch(1, 300)}}, {}));
  plan::Target target = cpu_target();
  target.attention_kernel = "flash attention";
  const plan::Analytic analytic =
      plan::estimate_analytic(arch::resolve(config, grouped_architecture()), target, workload);
  const memory::Memory dry_run = dry_run_cpu(arch::resolve(config, grouped_architecture()), nullptr, workload).memory;
  EXPECT_NEAR(static_cast<double>(analytic.peak), static_cast<double>(dry_run.peak), 8) << "the loss and its gradient";
  EXPECT_EQ(analytic.at_peak[Component::kWeights], dry_run.at_peak[Component::kWeights]);
}

}  // namespace
}  // namespace fathom::play::analytic_dry_run_test
