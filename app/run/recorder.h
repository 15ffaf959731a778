// What is told of a run while it trains: metrics.jsonl, TensorBoard's events where asked, and the terminal's line.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/run/step_profile.h"
#include "app/run/step_times.h"
#include "checkpoint/checkpoint.h"
#include "config/run_config.h"
#include "report/metrics.h"
#include "report/progress.h"
#include "report/sink.h"
#include "train/loop.h"

namespace fathom::app {

class Recorder {
 public:
  // Refers to the config.
  Recorder(const config::RunConfig& config, const std::optional<checkpoint::Checkpoint>& resume, StepTimes& times,
           StepProfile& profile);

  // The files are opened, and cut back to the checkpoint, before the first step, by when the checkpoint has been
  // loaded: what cannot be written throws there. From then on it costs no more than the log.
  train::Observer observer();
  // What could not be written; empty: nothing.
  std::vector<std::string> failures() const;
  // The speed of all steps of this process, as metrics.jsonl has it of stretches, and how the loss went; empty before
  // the first.
  std::string summary() const;

 private:
  void open();
  train::ObserverState state() const;
  void step(const train::StepReport& report);
  void evaluation(const report::EvaluationMetrics& metrics);
  // To every sink that is open.
  template <typename Metrics>
  void append(const Metrics& metrics) {
    for (const Told& each : told_) {
      if (each.sink) each.sink->append(metrics);
    }
  }

  const config::RunConfig& config_;
  StepTimes& times_;
  StepProfile& profile_;
  struct Told {
    const report::SinkKind& kind;
    report::LogMark kept;                // of an existing file: what the checkpoint knew of
    std::unique_ptr<report::Sink> sink;  // null: not wanted, or before the first step
  };
  std::vector<Told> told_;  // of every kind
  struct Logged {
    int64_t step = 0;
    double loss = 0;  // mean since the one before
  } first_logged_, last_logged_;
  report::Interval interval_, all_;  // since the last logged step; of this process
  report::ProgressPrinter progress_{report::ProgressPrinter::standard_error()};
};

}  // namespace fathom::app
