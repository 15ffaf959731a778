// What the processes of one run compare before they train together.
#pragma once

#include <optional>

#include "app/run/session.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "schedule/inputs.h"

namespace fathom::app {

// Throws UsageError where some have a GPU and others not. Every process calls it.
void require_same_devices(const Session& session);
// Throw Error where one has another config than the first, or other data or another checkpoint to go on from:
// their sums would be of nothing. Every process calls them, the former before they read anything together.
void require_same_config(dist::Group& group, const config::RunConfig& config);
void require_same_run(dist::Group& group, const schedule::RunInputs& inputs,
                      const std::optional<checkpoint::Checkpoint>& resume);

}  // namespace fathom::app
