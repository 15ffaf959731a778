// Time by phases, on a CPU, where a mark is a point in time.
#include "train/phase_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace fathom::train {
namespace {

using memory::Phase;

void spend(PhaseClock& clock, Phase phase, int milliseconds) {
  clock.begin(phase);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  clock.end();
}

TEST(PhaseClock, AddsUpThePhasesOfAllStepsButTheFirst) {
  PhaseClock clock(at::kCPU);
  clock.begin_step();
  spend(clock, Phase::kForward, 5);
  EXPECT_EQ(clock.seconds(), plan::StepParts<double>{});
  for (int step = 0; step < 2; ++step) {
    clock.begin_step();
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
      spend(clock, Phase::kForward, 3);
      spend(clock, Phase::kBackward, 6);
    }
    spend(clock, Phase::kOptimizerStep, 1);
  }
  const plan::StepParts<double> seconds = clock.seconds();
  EXPECT_GE(seconds.forward, 12e-3);
  EXPECT_GE(seconds.backward, 24e-3);
  EXPECT_GE(seconds.update, 2e-3);
  EXPECT_EQ(clock.seconds(), seconds);
}

}  // namespace
}  // namespace fathom::train
