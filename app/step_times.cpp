// Expected against measured time of a run's steps.
#include "app/step_times.h"

#include <ATen/Parallel.h>

#include <array>
#include <cstdio>

#include "app/calibrations.h"
#include "plan/outlook.h"
#include "report/progress.h"

namespace fathom::app {
namespace {

std::optional<plan::Throughput> throughput_of(const config::RunConfig& config, const model::ModelShape& shape,
                                              const Session& session) {
  if (session.phantom) return std::nullopt;
  if (session.placement.cuda == nullptr) return cpu_throughput(config, shape, at::get_num_threads());
  return plan::throughput_of(listed_spec_of(*session.placement.cuda), config, shape);
}

std::string line(const char* format, auto... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string duration(double seconds) {
  if (seconds >= 60) return report::format_duration(seconds);
  return seconds < 1 ? line("%.1f ms", 1e3 * seconds) : line("%.2f s", seconds);
}

constexpr const char* kUnknown = "no time is known to expect of this device: `fathom doctor --calibrate` measures it";

}  // namespace

StepTimes::StepTimes(const config::RunConfig& config, const train::RunInputs& inputs, const Session& session)
    : config_(config),
      shape_(inputs.shape),
      phantom_(session.phantom),
      throughput_(throughput_of(config, inputs.shape, session)),
      steps_(train::step_shapes(config, inputs.train)) {}

std::string StepTimes::forecast() const {
  if (steps_.empty() || phantom_) return "";
  if (!throughput_) return std::string(kUnknown).replace(0, 1, "N") + ".\n";
  const plan::ExpectedRun run = plan::expected_run(shape_, config_, steps_, *throughput_);
  return "Expected, by " + throughput_->source + ": " + duration(run.seconds / static_cast<double>(run.steps)) +
         " a step, " + duration(run.seconds) + " for all " + std::to_string(run.steps) + " steps.\n";
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

double StepTimes::expected_of(const train::StepShape& step) const {
  return plan::expected_time(plan::estimate_arithmetic(shape_, config_, step), *throughput_).seconds();
}

std::string StepTimes::comparison() const {
  const Sums all = sums();
  if (all.steps == 0) return "";
  const auto mean = [&](double sum) { return duration(sum / static_cast<double>(all.steps)); };
  std::string text = "Steps took " + mean(all.measured) + " on average";
  if (!throughput_) return text + (phantom_ ? "" : std::string("; ") + kUnknown) + ".\n";
  text += ", " + mean(all.expected) + " were expected";
  return text + line(": %+.1f %%.\n", 100 * (all.expected / all.measured - 1));
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
