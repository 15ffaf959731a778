// How long the parts of a run's steps took beside how long they were expected to take.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/json.h"
#include "plan/time/expected_time.h"

namespace fathom::report {

// Of several steps, in seconds of all of them.
struct StepTimes {
  int64_t steps = 0;
  double measured = 0;                         // on the host, from the begin of each step to its end
  plan::StepParts<double> parts;               // of it, as the device went through them
  std::optional<plan::ExpectedTime> expected;  // unset: unknown
  std::string source = {};                     // of what is expected: plan::Throughput::source
};

// A table of means with a row for each part. "between" is what was spent in none of them, as on making batches;
// "waiting, within these" is for other processes and for the host's memory. Empty for no steps.
std::string format_step_times(const StepTimes& times);
// {"steps", "measured_seconds", "expected_seconds", "source"}, and "forward_measured_seconds" and so on of each part;
// seconds are of all steps, null where unknown. null for no steps.
Json step_times_json(const StepTimes& times);

}  // namespace fathom::report
