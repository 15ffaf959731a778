// Why an advised run has the settings that it has, with figures: each of its techniques, and what the run would be
// without it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/advice/search.h"

namespace fathom::plan {

struct Reason {
  std::vector<std::string> keys;  // that the technique sets otherwise than the question's run has them
  std::string technique, note;    // as its row says
  // Of the advised run with these keys as in the question, by formula; unset where that is no run.
  std::optional<int64_t> peak_without;
  std::optional<double> seconds_without;
};

// In the order in which techniques are applied.
std::vector<Reason> reasons(const Question& question, const Combination& advised);

}  // namespace fathom::plan
