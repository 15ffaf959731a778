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

#include "base/descriptor.h"
#include "report/metrics.h"

namespace fathom::report {

using Scalars = std::vector<std::pair<std::string, double>>;  // tag ("train/loss") and value

// Castagnoli's cyclic redundancy check.
uint32_t crc32c(std::string_view bytes);
// Of an evaluation.
Scalars scalars_of(const EvaluationMetrics& metrics);
// One record: an event at `step` with these scalars.
std::string event_record(double wall_time, int64_t step, const Scalars& scalars);

// Appends whole records with one write each: a killed run leaves a file that TensorBoard reads. A checkpoint keeps
// bytes(), and a resumed run passes it as keep_bytes: what came after the checkpoint is cut off.
class EventFile {
 public:
  // output_dir/events.out.tfevents.fathom. keep_bytes: 0 starts an empty file. Throws Error if the file is shorter than
  // that, or no record ends there.
  explicit EventFile(const std::filesystem::path& output_dir, int64_t keep_bytes = 0);

  void append(int64_t step, const Scalars& scalars);
  int64_t bytes() const { return bytes_; }
  // Puts everything on the disk; call it before a checkpoint names bytes().
  void sync();

 private:
  void write(const std::string& record);

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_ = 0;
};

}  // namespace fathom::report
