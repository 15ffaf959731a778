// What a run leaves about itself beside its weights: memory.json, timeline.json and report.html.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "arch/run.h"
#include "base/json.h"
#include "plan/plan.h"

namespace fathom::app {

// What became of a run.
struct RunEnd {
  double seconds = 0;                // that all of it took
  std::optional<int64_t> kept_step;  // whose weights are the model in output_dir; unset where none is there
  std::string failure = {};          // what ended it, in a line; empty where it ended as it should, or by a signal
};

// Writes them into output_dir, each whole or not at all; `memory` is what memory.json says of the comparison, to which
// the run's own facts are added. Before the run, with the plan alone and no end, it writes no page: an interrupted run
// has its prediction, from which `fathom report` makes one.
void write_run_report(const arch::Run& run, const std::string& command_line, const plan::Comparison& comparison,
                      Json memory, const std::optional<RunEnd>& end = std::nullopt);

// What a run's folder said of it before it was continued there: put back where no step was left, so that its
// measurements are not lost for none.
class EarlierReport {
 public:
  // Of a folder that lacks any of the files, or of none (""): nothing.
  explicit EarlierReport(const std::filesystem::path& folder);
  bool exists() const { return !files_.empty(); }
  void put_back() const;

 private:
  std::filesystem::path folder_;
  std::map<std::string, std::string> files_;  // by name
};

// A page of the run's plan alone, for `estimate`; memory: as `estimate --json` tells it.
void write_plan_page(const std::filesystem::path& file, const arch::Run& run, const std::string& command_line,
                     const plan::Plan& plan, Json memory);

}  // namespace fathom::app
