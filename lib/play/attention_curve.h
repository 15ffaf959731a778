// What one layer's attention takes over the length of a sequence, forward and backward: flash against math.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "train/trainer.h"

namespace fathom::play {

struct AttentionCost {
  std::optional<int64_t> dry_run;   // bytes live at the peak, inputs and their given gradient apart; unset: not played
  std::optional<int64_t> measured;  // the same, by the ledger
  std::optional<double> seconds;    // of a forward and a backward pass
};
struct AttentionPoint {
  int64_t length = 0;
  AttentionCost flash, math;
};

// One sequence of the model's heads in the type in which the run computes, at lengths 512, 1,024, … longest. Dry runs
// are on the phantom device and stand for the CPU; on CUDA only what is measured is told. A kernel is measured at
// placement.device while its next length promises to stay within the limits, and fits the memory.
struct AttentionLimits {
  int64_t longest = 131072;
  double seconds = 0;  // of one forward and backward pass
  int64_t bytes = 0;   // of its dry run
};
std::vector<AttentionPoint> attention_curve(const arch::Run& run, const train::Placement& placement,
                                            const AttentionLimits& limits);

// [{"length", "flash": {"dry_run", "measured", "seconds"}, "math": {…}}]; null for what is not known.
Json to_json(const std::vector<AttentionPoint>& points);

}  // namespace fathom::play
