// The rules of thumb: what they say of well-known sizes, and how far off they are.
#include "plan/advice/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"

namespace fathom::plan::rules_test {
namespace {

using memory::Component;
using ::testing::HasSubstr;

constexpr int64_t kBillion = 1'000'000'000;

Comparison of(int64_t parameters) {
  Comparison comparison;
  comparison.plan.workload.parameters = comparison.plan.workload.trained_parameters = parameters;
  return comparison;
}

// Trained in FP32: 16 bytes a parameter stand, `rest` bytes go with the batch.
Comparison trained(int64_t parameters, int64_t rest) {
  Comparison comparison = of(parameters);
  memory::Memory& memory = comparison.plan.dry_run;
  memory.at_peak[Component::kWeights] = memory.at_peak[Component::kGradients] = 4 * parameters;
  memory.at_peak[Component::kOptimizerStates] = 8 * parameters;
  memory.at_peak[Component::kActivations] = rest;
  memory.peak = memory.at_peak.total();
  return comparison;
}

RuleOfThumb find(const std::vector<RuleOfThumb>& rules, const std::string& part) {
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const RuleOfThumb& each) { return each.name.find(part) != std::string::npos; });
  if (rule == rules.end()) throw Error("there is no rule with " + part);
  return *rule;
}

TEST(RulesOfThumb, SayWhatIsPassedOnOfABillionParameters) {
  const std::vector<RuleOfThumb> rules = rules_of_thumb(of(kBillion));
  EXPECT_EQ(find(rules, "FP32 weights").bytes, 4 * kBillion);
  EXPECT_EQ(find(rules, "16-bit weights").bytes, 2 * kBillion);
  EXPECT_EQ(find(rules, "8-bit weights").bytes, kBillion);
  EXPECT_EQ(find(rules, "4-bit weights").bytes, kBillion / 2);
  EXPECT_EQ(find(rules, "takes 16 bytes").bytes, 16 * kBillion);
  EXPECT_EQ(find(rules, "takes 24 bytes").bytes, 24 * kBillion);
  EXPECT_EQ(find(rules, "six times").bytes, 24 * kBillion);
  EXPECT_EQ(find(rules, "twenty times").bytes, 80 * kBillion);
  EXPECT_EQ(find(rules, "half of 24").bytes, 12 * kBillion);
  EXPECT_EQ(find(rules, "8-bit AdamW").bytes, 10 * kBillion);
  EXPECT_EQ(find(rules, "mixed precision").bytes, 18 * kBillion);
  EXPECT_EQ(find(rules, "quantized billion takes 2 GB").bytes, 2 * kBillion);
  EXPECT_EQ(find(rules, "quantized billion takes 4 GB").bytes, 4 * kBillion);
  EXPECT_EQ(find(rules, "under AMP").bytes, 18 * kBillion);
  EXPECT_EQ(find(rules, "pure BF16").bytes, 8 * kBillion);
  EXPECT_EQ(find(rules, "LoRA or freezing").bytes, 2 * kBillion);
  EXPECT_EQ(find(rules, "QLoRA of 8 bits").bytes, kBillion);
  EXPECT_EQ(find(rules, "QLoRA of 4 bits").bytes, kBillion / 2);
  for (const RuleOfThumb& rule : rules) {
    EXPECT_EQ(rule.relative_error, 0) << rule.name << ": there is no figure to be off from";
    EXPECT_FALSE(rule.meant) << rule.name;
    EXPECT_EQ(rule.here, "") << rule.name;
    EXPECT_NE(rule.counts, "") << rule.name;
  }
}

TEST(RulesOfThumb, SevenBillionTrainIn168Gigabytes) {
  EXPECT_EQ(find(rules_of_thumb(of(7 * kBillion)), "takes 24 bytes").bytes, 168 * kBillion);
}

TEST(RulesOfThumb, TheLargestModelsHaveOneOfTheirOwn) {
  EXPECT_THROW(find(rules_of_thumb(of(50 * kBillion - 1)), "50 billion"), Error);
  EXPECT_EQ(find(rules_of_thumb(of(50 * kBillion)), "50 billion").bytes, 40'000 * kBillion);
}

TEST(RulesOfThumb, AreHeldAgainstTheWeightsAndThePeak) {
  const std::vector<RuleOfThumb> rules = rules_of_thumb(trained(1000, 4000));
  EXPECT_EQ(find(rules, "16-bit weights").against, "weights");
  EXPECT_EQ(find(rules, "16-bit weights").relative_error, -0.5);
  EXPECT_EQ(find(rules, "FP32 weights").relative_error, 0);
  EXPECT_EQ(find(rules, "takes 16 bytes").against, "peak");
  EXPECT_EQ(find(rules, "takes 16 bytes").relative_error, (16000.0 - 20000.0) / 20000.0);
  EXPECT_EQ(find(rules, "six times").bytes, 6 * 4000);
  EXPECT_THAT(find(rules, "takes 16 bytes").here, HasSubstr("20.0 bytes a parameter at the peak, 16.0 of them"));
}

// Of four processes that share the model, each stands for a quarter of it.
TEST(RulesOfThumb, AreOfOneShareWhereProcessesShareTheModel) {
  Comparison comparison = trained(kBillion, 0);
  comparison.plan.workload.parameters = comparison.plan.workload.trained_parameters = 4 * kBillion;
  comparison.plan.workload.shares = 4;
  const RuleOfThumb rule = find(rules_of_thumb(comparison), "takes 16 bytes");
  EXPECT_EQ(rule.bytes, 16 * kBillion);
  EXPECT_EQ(rule.relative_error, 0);
  EXPECT_TRUE(rule.meant);
}

TEST(RulesOfThumb, AMeasurementGoesBeforeTheDryRun) {
  Comparison comparison = trained(1000, 4000);
  comparison.measured = Measured();
  comparison.measured->memory = comparison.plan.dry_run;
  comparison.measured->memory.peak = 32000;
  EXPECT_EQ(find(rules_of_thumb(comparison), "takes 16 bytes").relative_error, -0.5);
}

std::vector<std::string> meant(const Comparison& comparison) {
  std::vector<std::string> names;
  for (const RuleOfThumb& rule : rules_of_thumb(comparison)) {
    if (rule.meant) names.push_back(rule.name);
  }
  return names;
}

TEST(RulesOfThumb, AreMeantForAMethodAndAPrecision) {
  using ::testing::ElementsAre;
  EXPECT_THAT(meant(trained(1000, 0)),
              ElementsAre(HasSubstr("FP32"), HasSubstr("16 bytes"), HasSubstr("24 bytes"), HasSubstr("six times")));
  Comparison rounded = trained(1000, 0);
  rounded.plan.dry_run.at_peak[Component::kOptimizerStates] = 2031;
  EXPECT_THAT(meant(rounded), ElementsAre(HasSubstr("FP32"), HasSubstr("16 bytes"), HasSubstr("24 bytes"),
                                          HasSubstr("six times"), HasSubstr("8-bit AdamW")));
  Comparison narrow = trained(1000, 0);
  narrow.plan.dry_run.at_peak[Component::kWeights] = 2000;
  EXPECT_THAT(meant(narrow), ElementsAre(HasSubstr("16-bit"), HasSubstr("half of 24"), HasSubstr("pure BF16")));
  narrow.plan.workload.trained_parameters = 5;
  EXPECT_THAT(meant(narrow), ElementsAre(HasSubstr("16-bit"), HasSubstr("LoRA or freezing")));
  EXPECT_THAT(find(rules_of_thumb(narrow), "takes 16 bytes").here,
              HasSubstr("only 0.5 % of the parameters are trained"));
}

TEST(RulesOfThumb, RefuseSizesBeyondCounting) { EXPECT_THROW(rules_of_thumb(of(int64_t{1} << 60)), Error); }

}  // namespace
}  // namespace fathom::plan::rules_test
