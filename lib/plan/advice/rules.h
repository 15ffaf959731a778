// Rules of thumb as they are passed on, beside what this run takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace fathom::plan {

struct RuleOfThumb {
  std::string name;   // "training takes 16 bytes per parameter"
  int64_t bytes = 0;  // what the rule says of this model, or of one share of it
  // (rule - figure) / figure; the figure is measured where there is a measurement, else dry run. 0 without a figure.
  double relative_error = 0;
  std::string against;  // the figure: "weights" or "peak"
  bool meant = false;   // for a run like this one: its precision and its method
  std::string counts;   // what is in the rule: "weights of 16 bits; nothing of a batch"
  std::string here;     // what this run takes in the rule's own unit; empty without a figure
};

// Rules of loading are held against the weights, rules of training against the peak. The rule for the largest models
// comes from 50 billion parameters on.
std::vector<RuleOfThumb> rules_of_thumb(const Comparison& comparison);

}  // namespace fathom::plan
