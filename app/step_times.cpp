// Expected against measured time of a run's steps.
#include "app/step_times.h"

#include <ATen/Parallel.h>

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

StepTimes::Sums StepTimes::sums() const {
  Sums sums;
  for (size_t i = 1; i < measured_.size(); ++i) {
    const auto& [step, seconds] = measured_[i];
    if (step < 1 || step > static_cast<int64_t>(steps_.size())) continue;
    sums.steps += 1;
    sums.measured += seconds;
    if (throughput_) sums.expected += expected_of(steps_[static_cast<size_t>(step) - 1]);
  }
  return sums;
}

double StepTimes::expected_of(const schedule::StepShape& step) const {
  const plan::Arithmetic arithmetic = plan::estimate_arithmetic(architecture_, config_, step);
  return plan::expected_step_time(architecture_, config_, step, arithmetic, *throughput_).seconds();
}

std::string StepTimes::comparison() const {
  const Sums all = sums();
  if (all.steps == 0 || phantom_) return "";
  const auto mean = [&](double sum) { return format_seconds(sum / static_cast<double>(all.steps)); };
  std::string text = "Steps took " + mean(all.measured) + " on average";
  if (!throughput_) return text + ".\n";  // why there is no other, the forecast says
  text += ", " + mean(all.expected) + " were expected";
  return text + ": " + format_change(all.expected / all.measured - 1) + ".\n";
}

Json StepTimes::json() const {
  const Sums all = sums();
  if (all.steps == 0) return nullptr;
  return {{"steps", all.steps},
          {"measured_seconds", all.measured},
          {"expected_seconds", throughput_ ? Json(all.expected) : Json(nullptr)},
          {"source", throughput_ ? Json(throughput_->source) : Json(nullptr)}};
}

}  // namespace fathom::app
