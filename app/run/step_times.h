// How long steps were expected to take, and how long they took.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/run/session.h"
#include "plan/plan.h"
#include "plan/time/expected_time.h"
#include "report/step_time_table.h"
#include "schedule/inputs.h"
#include "schedule/steps.h"

namespace fathom::app {

class StepTimes {
 public:
  // What is expected of the session's device: as calibrated for the CPU, as the plan has it or as listed for a GPU; of
  // a phantom nothing.
  StepTimes(const arch::Run& run, const schedule::RunInputs& inputs, const Session& session, const plan::Plan& plan);

  // One line: "Expected, by …", or how an expectation can be had; nothing of a phantom.
  std::string forecast() const;
  // A step has been done. step: counted from 1, over resumed runs too.
  void add(int64_t step, double seconds) { measured_.emplace_back(step, seconds); }
  // Of the steps after the first, which takes memory and loads code; phase_seconds: of these on the device.
  report::StepTimes sums(const plan::StepParts<double>& phase_seconds) const;

 private:
  const arch::Run& run_;
  config::Device device_;
  bool phantom_;
  std::optional<plan::Throughput> throughput_;
  std::vector<schedule::StepShape> steps_;
  std::vector<std::pair<int64_t, double>> measured_;
};

}  // namespace fathom::app
