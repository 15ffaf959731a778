// Expected against measured time of a run's steps.
#include "app/run/step_times.h"

#include <ATen/Parallel.h>

#include <iterator>

#include "app/run/calibrations.h"
#include "base/bytes.h"
#include "base/numbers.h"
#include "plan/outlook.h"
#include "report/estimate_table.h"

namespace fathom::app {
namespace {

std::optional<plan::Throughput> throughput_of(const arch::Run& run, const Session& session, const plan::Plan& plan) {
  if (session.phantom) return std::nullopt;
  if (session.placement.cuda == nullptr) return cpu_throughput(run, at::get_num_threads());
  return plan::speed_of(plan.throughput, plan::throughput_of(listed_spec_of(*session.placement.cuda), run));
}

}  // namespace

StepTimes::StepTimes(const arch::Run& run, const schedule::RunInputs& inputs, const Session& session,
                     const plan::Plan& plan)
    : run_(run),
      device_(session.placement.cuda == nullptr ? config::Device::kCpu : config::Device::kCuda),
      phantom_(session.phantom),
      throughput_(throughput_of(run, session, plan)),
      steps_(schedule::step_shapes(run.config, inputs.train)) {}

std::string StepTimes::forecast() const {
  if (steps_.empty() || phantom_) return "";
  if (!throughput_) return report::describe_unknown_speed(device_) + "\n";
  const plan::ExpectedRun all = plan::expected_run(run_, steps_, *throughput_);
  return "Expected, by " + throughput_->source + ": " + format_seconds(all.seconds / static_cast<double>(all.steps)) +
         " a step, " + format_seconds(all.seconds) + " for all " + format_count(all.steps) + " steps.\n";
}

report::StepTimes StepTimes::sums(const plan::StepParts<double>& phase_seconds) const {
  report::StepTimes sums;
  sums.parts = phase_seconds;
  std::optional<plan::ExpectedSteps> each;
  if (throughput_) each.emplace(run_, *throughput_);
  plan::ExpectedTime expected;
  bool knows_all = throughput_.has_value();  // also the shapes of all these steps
  for (size_t i = 1; i < measured_.size(); ++i) {
    const auto& [step, seconds] = measured_[i];
    sums.steps += 1;
    sums.measured += seconds;
    knows_all = knows_all && step >= 1 && step <= std::ssize(steps_);
    if (knows_all) expected = expected + each->of(steps_[static_cast<size_t>(step) - 1]);
  }
  if (knows_all) {
    sums.expected = expected;
    sums.source = throughput_->source;
  }
  return sums;
}

}  // namespace fathom::app
