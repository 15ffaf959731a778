// Expected against measured time of a run's steps.
#include "app/step_times.h"

#include <ATen/Parallel.h>

#include <iterator>

#include "app/calibrations.h"
#include "base/bytes.h"
#include "base/numbers.h"
#include "plan/outlook.h"
#include "report/estimate_table.h"

namespace fathom::app {
namespace {

std::optional<plan::Throughput> throughput_of(const config::RunConfig& config, const arch::Architecture& architecture,
                                              const Session& session, const plan::Plan& plan) {
  if (session.phantom) return std::nullopt;
  if (session.placement.cuda == nullptr) return cpu_throughput(config, architecture, at::get_num_threads());
  return plan::speed_of(plan, plan::throughput_of(listed_spec_of(*session.placement.cuda), config, architecture));
}

}  // namespace

StepTimes::StepTimes(const config::RunConfig& config, const schedule::RunInputs& inputs, const Session& session,
                     const plan::Plan& plan)
    : config_(config),
      device_(session.placement.cuda == nullptr ? config::Device::kCpu : config::Device::kCuda),
      phantom_(session.phantom),
      architecture_(inputs.architecture),
      throughput_(throughput_of(config, inputs.architecture, session, plan)),
      steps_(schedule::step_shapes(config, inputs.train)) {}

std::string StepTimes::forecast() const {
  if (steps_.empty() || phantom_) return "";
  if (!throughput_) return report::describe_unknown_speed(device_) + "\n";
  const plan::ExpectedRun run = plan::expected_run(architecture_, config_, steps_, *throughput_);
  return "Expected, by " + throughput_->source + ": " + format_seconds(run.seconds / static_cast<double>(run.steps)) +
         " a step, " + format_seconds(run.seconds) + " for all " + format_count(run.steps) + " steps.\n";
}

report::StepTimes StepTimes::sums(const plan::StepParts<double>& phase_seconds) const {
  report::StepTimes sums;
  sums.parts = phase_seconds;
  std::optional<plan::ExpectedSteps> each;
  if (throughput_) each.emplace(architecture_, config_, *throughput_);
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
