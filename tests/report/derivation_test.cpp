// The account of the peak and the rules of thumb, as the terminal shows them.
#include "report/derivation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "report/table.h"
#include "tests/report/example.h"

namespace fathom::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(FormatDerivation, ListsTensorsPerLayerAndSummedWithTheirSources) {
  EXPECT_EQ(format_derivation(example_plan().analytic), R"(Analytic account of the peak: start of the backward pass

tensor       numbers                     of one layer  layers   bytes
──────────────────────────────────────────────────────────────────────────
weights                                                         4,096
  weights    1,024 parameters × 4 bytes                         4,096  [1]
activations                                                     2,000
  layers     750 bytes                            750  × 2      1,500  [2]
  logits     500 bytes                                            500  [2]
──────────────────────────────────────────────────────────────────────────
total                                                          15,832

[1] FP32 takes 4 bytes
[2] kept for the backward pass
)");
}

TEST(FormatDerivation, SumsWhatTheLayersHold) {
  plan::Analytic analytic = example_plan().analytic;
  analytic.terms.push_back({memory::Component::kActivations, "norms", "250 bytes", 2, 500, ""});
  const std::string account = format_derivation(analytic);
  EXPECT_THAT(account, HasSubstr("\n  sum of the layers                                   1,000  × 2      2,000\n"));
  EXPECT_THAT(account, HasSubstr("\nactivations                                                           2,500\n"));
  analytic.terms.back().layers = 1;
  EXPECT_THAT(format_derivation(analytic), Not(HasSubstr("sum of the layers"))) << "the layers differ";
}

TEST(FormatDerivation, FitsATerminal) {
  plan::Analytic analytic = example_plan().analytic;
  analytic.terms.push_back({memory::Component::kTemporaryBuffers, "gradient of a linear layer's input, once more",
                            "2 of 131,072 tokens × 28,672 × 4 bytes, of all that count", 126, int64_t{1} << 41,
                            std::string("a source ") + "of which there is much to say, in many words, " +
                                "so that it takes more than one line of it"});
  std::istringstream lines(format_derivation(analytic));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), kTerminalColumns) << line;
}

TEST(FormatRules, ShowsTheRulesThatAreMeantForTheRun) {
  const std::string rules = format_rules({example_plan(), {}}, false);
  EXPECT_THAT(rules, HasSubstr("training takes 16 bytes per parameter  "));
  EXPECT_THAT(rules, HasSubstr("+3.17 %")) << "16,384 bytes against 15,880";
  EXPECT_THAT(rules, Not(HasSubstr("LLaMA-Factory")));
  EXPECT_THAT(rules, Not(HasSubstr("- training"))) << "reasons are for those who ask for all";
}

TEST(FormatRules, ShowsAllWithReasonsWhereAsked) {
  const std::string rules = format_rules({example_plan(), {}}, true);
  EXPECT_THAT(rules, HasSubstr("LLaMA-Factory, QLoRA of 4 bits"));
  EXPECT_THAT(rules, HasSubstr("- training takes 16 bytes per parameter: weights 4, and 12 to train"));
  EXPECT_THAT(rules,
              HasSubstr("\nHere the weights take 4.0 bytes a parameter.\nHere 15.5 bytes a parameter at the peak"));
}

}  // namespace
}  // namespace fathom::report
