// Expected against measured time of a run's steps.
#include "app/step_times.h"

#include <ATen/Parallel.h>

#include <array>
#include <cstdio>

#include "app/calibrations.h"
#include "plan/outlook.h"

namespace fathom::app {
namespace {

std::optional<plan::Throughput> throughput_of(const config::RunConfig& config, const model::ModelShape& shape,
                                              const Session& session) {
  if (session.phantom) return std::nullopt;
  if (session.placement.cuda == nullptr) return cpu_throughput(config, shape, at::get_num_threads());
  return plan::throughput_of(with_listed_figures(spec_of(*session.placement.cuda)), config, shape);
}

std::string line(const char* format, auto... values) {
  std::array<char, 256> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

StepTimes::StepTimes(const config::RunConfig& config, const train::RunInputs& inputs, const Session& session)
    : config_(config),
      shape_(inputs.shape),
      throughput_(throughput_of(config, inputs.shape, session)),
      steps_(train::step_shapes(config, inputs.train)) {}

std::string StepTimes::forecast() const {
  if (!throughput_ || steps_.empty()) return "";
  const plan::ExpectedRun run = plan::expected_run(shape_, config_, steps_, *throughput_);
  return line("Expected, by %s: %.3g ms a step, %.1f s for all %ld steps.\n", throughput_->source.c_str(),
              1e3 * run.seconds / static_cast<double>(run.steps), run.seconds, run.steps);
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
  const double mean = 1e3 * all.measured / static_cast<double>(all.steps);
  if (!throughput_) return line("Steps took %.3g ms on average; this device is not calibrated.\n", mean);
  return line("Steps took %.3g ms on average, %.3g ms were expected: %+.1f %%.\n", mean,
              1e3 * all.expected / static_cast<double>(all.steps), 100 * (all.expected / all.measured - 1));
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
