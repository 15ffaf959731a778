// The analytic estimate against the dry run of tiny models, over every precision: 6 % of the peak; exact in weights,
// optimizer states and gradients.
#include <gtest/gtest.h>

#include <cstdlib>

#include "plan/analytic.h"
#include "plan/dry_run.h"
#include "plan/make_plan.h"

namespace fathom::plan {
namespace {

using ledger::Component;

struct Case {
  std::string name;
  config::RunConfig config;
  arch::ModelShape shape;
  train::StepShape step;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

arch::ModelShape grouped_shape() {
  arch::ModelShape shape;
  shape.architecture = "LlamaForCausalLM";
  shape.vocab_size = 2000;
  shape.hidden_size = 192;
  shape.intermediate_size = 520;
  shape.num_hidden_layers = 5;
  shape.num_attention_heads = 6;
  shape.num_key_value_heads = 2;
  shape.head_dim = 32;
  return shape;
}

arch::ModelShape tied_shape() {
  arch::ModelShape shape = grouped_shape();
  shape.vocab_size = 9000;
  shape.num_hidden_layers = 3;
  shape.num_key_value_heads = 6;
  shape.tie_word_embeddings = true;
  return shape;
}

// Qwen3's norms and Llama's biases at once, which no family has: each where the other could hide it.
arch::ModelShape normed_shape(bool tied) {
  arch::ModelShape shape = tied ? tied_shape() : grouped_shape();
  shape.query_key_value_bias = shape.output_bias = shape.feed_forward_bias = true;
  shape.query_key_norm = arch::QueryKeyNorm::kEachHead;
  return shape;
}

// As OLMo 2.
arch::ModelShape normed_after_shape() {
  arch::ModelShape shape = grouped_shape();
  shape.norms = arch::NormPlacement::kAfter;
  shape.query_key_norm = arch::QueryKeyNorm::kAllHeads;
  return shape;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const auto method : {config::Method::kFull, config::Method::kLora}) {
    for (const std::string precision : {"fp32", "autocast", "bf16", "fp16"}) {
      for (const bool checkpointing : {false, true}) {
        for (const auto attention : {config::Attention::kFlash, config::Attention::kMath}) {
          for (const std::string shape : {"grouped", "tied", "grouped_normed", "tied_normed", "normed_after"}) {
            for (const int64_t length : {20, 300, 700}) {
              const bool tied = shape.starts_with("tied");
              Case each;
              each.name = std::string(method == config::Method::kFull ? "full_" : "lora_") + precision +
                          (checkpointing ? "_checkpointing" : "") +
                          (attention == config::Attention::kMath ? "_math" : "_flash") + "_" + shape + "_" +
                          std::to_string(length);
              each.shape = tied ? tied_shape() : grouped_shape();
              if (shape.ends_with("normed")) each.shape = normed_shape(tied);
              if (shape == "normed_after") each.shape = normed_after_shape();
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

class AnalyticDryRun : public testing::TestWithParam<Case> {};

double relative(int64_t figure, int64_t reference) {
  return static_cast<double>(figure - reference) / static_cast<double>(reference);
}

TEST_P(AnalyticDryRun, AreClose) {
  const Case& each = GetParam();
  const Workload workload = make_workload(each.config, each.shape, train::imagined_schedule({each.step}, {}));
  Target target = cpu_target();
  target.attention_kernel =
      each.config.attn_implementation == config::Attention::kMath ? "math attention" : "flash attention";
  const Analytic analytic = estimate_analytic(each.shape, each.config, target, workload);
  const ledger::Memory dry_run = dry_run_cpu(each.config, each.shape, nullptr, workload).memory;
  std::string terms = "analytic, " + analytic.instant + "\n";
  for (const Analytic::Term& term : analytic.terms)
    terms += "  " + std::to_string(term.bytes) + "  " + term.what + ": " + term.formula + "\n";
  EXPECT_LT(std::abs(relative(analytic.peak, dry_run.peak)), 0.06)
      << analytic.peak << " against " << dry_run.peak << "\n"
      << terms;
  for (const Component component : {Component::kWeights, Component::kOptimizerStates, Component::kGradients}) {
    EXPECT_EQ(analytic.maximum[component], dry_run.maximum[component]) << component_name(component);
  }
}

INSTANTIATE_TEST_SUITE_P(Everything, AnalyticDryRun, testing::ValuesIn(all_cases()),
                         [](const testing::TestParamInfo<Case>& info) { return info.param.name; });

// The fullest batch is not the longest, which comes later.
TEST(AnalyticDryRunOfSteps, HasThePositionsOfTheLongestSequence) {
  config::RunConfig config;
  config.random_init = true;
  const Workload workload =
      make_workload(config, grouped_shape(),
                    train::imagined_schedule({{train::whole_batch(9, 60)}, {train::whole_batch(1, 300)}}, {}));
  Target target = cpu_target();
  target.attention_kernel = "flash attention";
  const Analytic analytic = estimate_analytic(grouped_shape(), config, target, workload);
  const ledger::Memory dry_run = dry_run_cpu(config, grouped_shape(), nullptr, workload).memory;
  EXPECT_NEAR(static_cast<double>(analytic.peak), static_cast<double>(dry_run.peak), 8) << "the loss and its gradient";
  EXPECT_EQ(analytic.at_peak[Component::kWeights], dry_run.at_peak[Component::kWeights]);
}

}  // namespace
}  // namespace fathom::plan
