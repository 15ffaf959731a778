// How long the phases of a run's steps take on its device.
#pragma once

#include <deque>
#include <optional>

#include "ops/device_mark.h"
#include "plan/time/step_parts.h"

namespace fathom::train {

// Marks where phases begin and end in the work of the device, and waits for nothing: on a GPU the marks are read once
// it has passed them. The first step, which takes memory and loads code, counts for nothing.
class PhaseClock {
 public:
  explicit PhaseClock(at::Device device) : device_(device) {}
  void begin_step();
  void begin(memory::Phase phase);
  void end();
  // Seconds of all steps so far but the first. The device must have done everything.
  plan::StepParts<double> seconds();

 private:
  struct Span {
    memory::Phase phase;
    ops::DeviceMark begins;
    std::optional<ops::DeviceMark> ends;
  };
  void add_passed();

  at::Device device_;
  int64_t steps_ = 0;
  std::deque<Span> spans_;  // that were not passed when it was last looked
  plan::StepParts<double> seconds_;
};

}  // namespace fathom::train
