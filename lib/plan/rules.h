// Rules of thumb: bytes per parameter, as they are passed on, beside what this run takes. No torch header.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace fathom::plan {

struct RuleOfThumb {
  std::string name;   // "training takes 16 bytes per parameter"
  int64_t bytes = 0;  // what the rule says of this model
  double relative_error =
      0;  // (rule - figure) / figure; the figure is measured where there is a measurement, else dry run
};

// Rules of loading are held against the weights, rules of training against the peak.
std::vector<RuleOfThumb> rules_of_thumb(const Comparison& comparison);

}  // namespace fathom::plan
