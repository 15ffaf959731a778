// TensorBoard's event file, written by the program itself: one scalar after the other, each step once also after a
// resume.
//
// A file is a row of records (length, masked CRC32C of it, data, masked CRC32C of them, as TensorFlow's record_writer
// frames them); the data are Event messages of event.proto in protobuf's wire format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/metrics.h"
#include "report/run_log.h"

namespace fathom::report {

using Scalars = std::vector<std::pair<std::string, double>>;  // tag ("train/loss") and value

// Of an evaluation.
Scalars scalars_of(const EvaluationMetrics& metrics);
// One record: an event at `step` with these scalars.
std::string event_record(double wall_time, int64_t step, const Scalars& scalars);

// output_dir/events.out.tfevents.fathom.
class EventFile : public RunLog {
 public:
  explicit EventFile(const std::filesystem::path& output_dir, const LogMark& kept = {});
  void append(int64_t step, const Scalars& scalars);
};

}  // namespace fathom::report
