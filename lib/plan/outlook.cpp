// Puts the estimates beside a plan together.
#include "plan/outlook.h"

#include "base/bytes.h"
#include "plan/bound.h"

namespace fathom::plan {
namespace {

int64_t tokens_of(const schedule::StepShape& step) {
  int64_t tokens = 0;
  for (const schedule::BatchShape& batch : step) {
    tokens = checked_add(tokens, checked_multiply(batch.rows, batch.length, "tokens of a step"), "tokens of a step");
  }
  return tokens;
}

}  // namespace

std::optional<double> Outlook::tokens_per_second() const {
  if (!step || step->seconds() <= 0) return std::nullopt;
  return static_cast<double>(step_tokens) / step->seconds();
}

const ExpectedTime& ExpectedSteps::of(const schedule::StepShape& step) {
  const auto found = known_.find(step);
  if (found != known_.end()) return found->second;
  const StepArithmetic arithmetic = estimate_arithmetic(run_, step);
  return known_.emplace(step, expected_step_time(run_, step, arithmetic, throughput_)).first->second;
}

ExpectedRun expected_run(const arch::Run& run, const std::vector<schedule::StepShape>& steps,
                         const Throughput& throughput) {
  ExpectedSteps each(run, throughput);
  ExpectedRun expected;
  for (const schedule::StepShape& step : steps) {
    expected.steps += 1;
    expected.tokens += tokens_of(step);
    expected.seconds += each.of(step).seconds();
  }
  return expected;
}

Outlook look_ahead(const arch::Run& run, const Plan& plan, const OutlookQuestion& question) {
  Outlook outlook;
  outlook.host = estimate_host(run, plan, question.program_bytes, question.mapped_bytes);
  const schedule::StepShape step = longest_step(run, plan.workload.steps);
  outlook.step_tokens = tokens_of(step);
  outlook.processes = run.config.num_processes;
  outlook.throughput = speed_of(plan.throughput, question.throughput);
  if (outlook.throughput) outlook.step = expected_time(plan.arithmetic, *outlook.throughput);
  outlook.host_traffic = host_traffic(run);
  if (outlook.throughput) {
    outlook.step->host_seconds =
        exposed_host_seconds(outlook.host_traffic, outlook.step->computing().seconds(), *outlook.throughput);
  }
  if (outlook.throughput && outlook.throughput->interconnect && run.config.num_processes > 1) {
    outlook.communication = communication_of(run, step, *outlook.throughput);
    outlook.step->exposed_seconds = outlook.communication->exposed;
  }
  if (outlook.throughput && !question.steps.empty()) {
    outlook.run = expected_run(run, question.steps, *outlook.throughput);
  }
  outlook.budget = question.budget;
  outlook.fits = missing_bytes(plan) == 0;
  outlook.cost = cost_of(question.budget, outlook.tokens_per_second(), question.listed_price);
  return outlook;
}

}  // namespace fathom::plan
