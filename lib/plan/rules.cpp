// Multiplies parameters by the rules' bytes and compares.
#include "plan/rules.h"

#include <array>

#include "base/bytes.h"

namespace fathom::plan {
namespace {

struct Rule {
  const char* name;
  int64_t bytes_per_parameter;
  bool training;  // held against the peak, not against the weights
};
constexpr std::array<Rule, 5> kRules = {{
    {"FP32 weights load in 4 bytes per parameter", 4, false},
    {"16-bit weights load in 2 bytes per parameter", 2, false},
    {"8-bit weights load in 1 byte per parameter", 1, false},
    {"training takes 16 bytes per parameter", 16, true},
    {"training takes 24 bytes per parameter", 24, true},
}};

}  // namespace

std::vector<RuleOfThumb> rules_of_thumb(const Comparison& comparison) {
  const ledger::Memory& memory = comparison.measured ? comparison.measured->memory : comparison.plan.dry_run;
  std::vector<RuleOfThumb> rules;
  for (const Rule& rule : kRules) {
    const int64_t bytes = checked_multiply(comparison.plan.workload.parameters, rule.bytes_per_parameter, rule.name);
    const int64_t figure = rule.training ? memory.peak : memory.at_peak[ledger::Component::kWeights];
    const double error = figure == 0 ? 0 : static_cast<double>(bytes - figure) / static_cast<double>(figure);
    rules.push_back({rule.name, bytes, error});
  }
  return rules;
}

}  // namespace fathom::plan
