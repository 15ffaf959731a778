// Counts recordings, and what comes before each.
#include "schedule/recordings.h"

#include <algorithm>

#include "arch/recorded_layers.h"

namespace fathom::schedule {

int64_t Recordings::stage_of(const BatchShape& batch, int64_t event) {
  const Kind kind(batch.rows, batch.length);
  const auto [first, is_first] = first_.try_emplace(kind, Placed{batch, event});
  if (!is_first && std::ssize(recorded_) < arch::kMostRecorded && recorded_.insert(kind).second) {
    needed_.emplace(first->second.event, first->second.batch);
    needed_.emplace(event, batch);
  }
  return 2 * std::ssize(recorded_) + (recorded_.contains(kind) ? 1 : 0);
}

int64_t recorded_beside_the_largest(const Schedule& schedule) {
  Recordings recordings;
  int64_t at = 0;
  for (const int32_t event : schedule.events) {
    if (std::ssize(recordings.recorded()) == arch::kMostRecorded) break;  // formulas ask for it again and again
    if (event == Schedule::kEvaluation) continue;
    for (const BatchShape& batch : schedule.steps[static_cast<size_t>(event)]) recordings.stage_of(batch, at++);
  }
  int64_t all = 0, largest = 0;
  for (const auto& [rows, length] : recordings.recorded()) {
    all += rows * length;
    largest = std::max(largest, rows * length);
  }
  return all - largest;
}

}  // namespace fathom::schedule
