// What a run leaves about itself beside its weights: memory.json, timeline.json and report.html.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.h"
#include "config/run_config.h"
#include "plan/plan.h"

namespace fathom::app {

// Writes them into output_dir, each whole or not at all; `memory` is what memory.json says of the comparison, to which
// the run's own facts are added. seconds: that the whole run took. Before the run, with the plan alone and no seconds,
// it writes no page: an interrupted run has its prediction, from which `fathom report` makes one.
void write_run_report(const config::RunConfig& config, const plan::Comparison& comparison, Json memory,
                      std::optional<double> seconds = std::nullopt);

// A page of the plan alone, for `estimate`; memory: as `estimate --json` tells it.
void write_plan_page(const config::RunConfig& config, const plan::Plan& plan, Json memory,
                     const std::filesystem::path& out);

}  // namespace fathom::app
