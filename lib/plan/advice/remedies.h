// What would help a run that takes too much: each change alone, by the analytic estimate.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arch/run.h"
#include "plan/plan.h"
#include "plan/time/expected_time.h"

namespace fathom::plan {

struct Remedy {
  std::string name;                   // "gradient checkpointing"
  std::vector<std::string> settings;  // as the command line takes them: {"gradient_checkpointing=true"}
  std::string note;                   // what it changes besides memory and time
  int64_t saved_bytes = 0;            // of the live peak
  int64_t peak = 0;                   // what remains
  std::optional<double> work;         // arithmetic of a step, 1: as before; unset where the data change with it
};

// Of the hardware, for a run; as Question has it (plan/advice/search.h). Empty: not known.
using ThroughputOf = std::function<std::optional<Throughput>(const arch::Run&)>;

// All techniques that the run does not have, updates in the backward pass with states in the host's memory, a smaller
// micro-batch at the same effective batch, and, where they matter, half the length and single rows in evaluations;
// those that save something, largest saving first. target and workload are those of the run as it is; data of other
// settings are derived from the workload's shapes. Notes say what copies from and to the host's memory cost, in seconds
// where the throughput is known, and what no GPU has run yet.
std::vector<Remedy> remedies(const arch::Run& run, const Target& target, const Workload& workload,
                             const ThroughputOf& throughput = {});

// One line for each of the first `count`: "  gradient_checkpointing=true  saves 3.20 GiB: the same result; …". Those
// that save at least missing_bytes (0: not known) are said to be enough. Empty for none.
std::string describe_remedies(const std::vector<Remedy>& remedies, int64_t missing_bytes = 0, size_t count = 5);

// A target for a run with other settings: its attention kernel follows them.
Target target_of(const Target& target, const arch::Run& run);

}  // namespace fathom::plan
