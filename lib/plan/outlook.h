// What an estimate tells besides bytes on the device: the host's memory, time, cost.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "plan/host.h"
#include "plan/plan.h"
#include "plan/time/communication.h"
#include "plan/time/cost.h"
#include "plan/time/expected_time.h"

namespace fathom::plan {

// The whole run, step by step with the lengths of its examples; of several processes, what the first one has of them.
struct ExpectedRun {
  int64_t steps = 0;
  int64_t tokens = 0;  // padding included
  double seconds = 0;  // of all steps; evaluations and saves come on top
};

struct Outlook {
  HostMemory host;
  int64_t host_traffic = 0;  // see plan/host.h
  int64_t step_tokens = 0;   // of the step whose arithmetic Plan::arithmetic is, padding included; one rank's
  std::optional<Throughput> throughput;        // unset: neither listed nor calibrated
  std::optional<ExpectedTime> step;            // where the throughput is known
  int64_t processes = 1;                       // of the run
  std::optional<Communication> communication;  // of that step, where there are several and what lies between is known
  std::optional<ExpectedRun> run;              // where there are data besides
  Budget budget;
  std::optional<Cost> cost;  // of the budget
  bool fits = true;          // the plan; where it does not, cost and speed are those of a run that cannot be
  std::optional<double> tokens_per_second() const;  // of one of the processes
};

struct OutlookQuestion {
  Budget budget;
  double listed_price = 0;  // of one GPU for an hour
  std::optional<Throughput> throughput;
  int64_t program_bytes = 0;  // see estimate_host
  int64_t mapped_bytes = 0;
  std::vector<schedule::StepShape> steps;  // of the whole run; empty: no data
};
Outlook look_ahead(const arch::Run& run, const Plan& plan, const OutlookQuestion& question);

// What steps are expected to take, by formula; those of one shape are reckoned once. Refers to all that it is given.
class ExpectedSteps {
 public:
  ExpectedSteps(const arch::Run& run, const Throughput& throughput) : run_(run), throughput_(throughput) {}
  const ExpectedTime& of(const schedule::StepShape& step);

 private:
  const arch::Run& run_;
  const Throughput& throughput_;
  std::map<schedule::StepShape, ExpectedTime> known_;
};

// Every step.
ExpectedRun expected_run(const arch::Run& run, const std::vector<schedule::StepShape>& steps,
                         const Throughput& throughput);

}  // namespace fathom::plan
