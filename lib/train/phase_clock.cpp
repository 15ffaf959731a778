// Adds up what the device has passed whenever a step begins, so that few marks are kept.
#include "train/phase_clock.h"

namespace fathom::train {

void PhaseClock::begin_step() {
  add_passed();
  steps_ += 1;
}

void PhaseClock::begin(memory::Phase phase) {
  if (steps_ > 1) spans_.push_back({phase, ops::DeviceMark(device_), std::nullopt});
}

void PhaseClock::end() {
  if (steps_ > 1) spans_.back().ends.emplace(device_);
}

plan::StepParts<double> PhaseClock::seconds() {
  add_passed();
  return seconds_;
}

void PhaseClock::add_passed() {
  while (!spans_.empty() && spans_.front().ends && spans_.front().ends->passed()) {
    const Span& span = spans_.front();
    seconds_.of(span.phase) += span.ends->seconds_since(span.begins);
    spans_.pop_front();
  }
}

}  // namespace fathom::train
