// The list of sinks.
#include "report/sink.h"

#include "report/metrics.h"
#include "report/tensorboard.h"

namespace fathom::report {

const std::vector<SinkKind>& sink_kinds() {
  static const std::vector<SinkKind> kinds = {
      {"metrics", [](config::ReportTo) { return true; },
       [](const std::filesystem::path& output_dir, const LogMark& kept) -> std::unique_ptr<Sink> {
         return std::make_unique<MetricsFile>(output_dir / "metrics.jsonl", kept);
       }},
      {"event", [](config::ReportTo told) { return told == config::ReportTo::kTensorBoard; },
       [](const std::filesystem::path& output_dir, const LogMark& kept) -> std::unique_ptr<Sink> {
         return std::make_unique<EventFile>(output_dir, kept);
       }},
  };
  return kinds;
}

}  // namespace fathom::report
