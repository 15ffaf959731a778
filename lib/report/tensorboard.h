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

#include "report/sink.h"

namespace fathom::report {

using TaggedValues = std::vector<std::pair<std::string, double>>;  // "train/loss" and its value

// One record: an event at `step` with these values.
std::string event_record(double wall_time, int64_t step, const TaggedValues& values);

// output_dir/events.out.tfevents.fathom.
class EventFile : public Sink {
 public:
  explicit EventFile(const std::filesystem::path& output_dir, const LogMark& kept = {});
  void append(int64_t step, const TaggedValues& values);
  void append(const StepMetrics& metrics) override;
  void append(const EvaluationMetrics& metrics) override;
};

}  // namespace fathom::report
