// Where a run writes what its steps and evaluations report: each is a log that checkpoints know the length of.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "config/names.h"
#include "report/run_log.h"

namespace fathom::report {

struct StepMetrics;
struct EvaluationMetrics;

class Sink : public RunLog {
 public:
  using RunLog::RunLog;
  virtual ~Sink() = default;

  virtual void append(const StepMetrics& metrics) = 0;
  virtual void append(const EvaluationMetrics& metrics) = 0;

 protected:
  using RunLog::append;
};

struct SinkKind {
  const char* name;                          // under which checkpoints keep its mark
  bool (*is_wanted)(config::ReportTo told);  // by config report_to
  // In output_dir, cut back to what the checkpoint kept; errors as RunLog's.
  std::unique_ptr<Sink> (*open)(const std::filesystem::path& output_dir, const LogMark& kept);
};
// All that there are.
const std::vector<SinkKind>& sink_kinds();

}  // namespace fathom::report
