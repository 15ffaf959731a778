// The dry run: load, the steps that matter, evaluation, save, on hardware that is not there.
#include "plan/dry_run.h"

#include <algorithm>

#include "base/error.h"
#include "phantom/device.h"
#include "plan/analytic.h"

namespace fathom::plan {
namespace {

data::Batch shape_only(const train::BatchShape& shape) {
  data::Batch batch;
  batch.rows = shape.rows;
  batch.length = shape.length;
  batch.token_count = shape.rows * shape.length;
  batch.target_count = batch.token_count;
  return batch;
}

std::vector<data::Batch> batches_of(const std::vector<train::BatchShape>& shapes) {
  std::vector<data::Batch> batches;
  for (const train::BatchShape& shape : shapes) batches.push_back(shape_only(shape));
  return batches;
}

void play(train::Trainer& trainer, const train::StepShape& step, double learning_rate, DryRun& result) {
  const std::vector<data::Batch> batches = batches_of(step);
  ledger::Memory previous = trainer.step(batches, learning_rate).memory;
  result.memory.merge(previous);
  for (int repetition = 1; repetition < kMostRepetitions; ++repetition) {
    const ledger::Memory current = trainer.step(batches, learning_rate).memory;
    result.memory.merge(current);
    result.steps_played += 1;
    if (current == previous) {
      result.steps_played += 1;
      return;
    }
    previous = current;
  }
  throw Error("the dry run of a step did not settle in " + std::to_string(kMostRepetitions) + " repetitions",
              "this is a defect of the program; please report the config");
}

}  // namespace

Workload make_workload(const config::RunConfig& config, const model::ModelShape& shape,
                       const std::vector<train::StepShape>& steps, const std::vector<train::BatchShape>& evaluations) {
  Workload workload;
  workload.steps = steps;
  if (config.eval_strategy != config::Cadence::kNo || config.eval_on_start) {
    std::vector<train::StepShape> single;
    for (const train::BatchShape& batch : evaluations) single.push_back({batch});
    for (const train::StepShape& step : train::maximal_shapes(single)) workload.evaluations.push_back(step.front());
  }
  const auto widen = [&](const train::BatchShape& batch) {
    workload.capacity_tokens = std::max(workload.capacity_tokens, batch.rows * batch.length);
  };
  for (const train::StepShape& step : workload.steps) std::for_each(step.begin(), step.end(), widen);
  std::for_each(workload.evaluations.begin(), workload.evaluations.end(), widen);
  const int64_t adapters = adapter_parameter_count(shape, config);
  workload.parameters = model::parameter_count(shape) + adapters;
  workload.trained_parameters = config.method == config::Method::kLora ? adapters : workload.parameters;
  return workload;
}

DryRun dry_run(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
               const Workload& workload, const train::Placement& placement) {
  DryRun result;
  train::Trainer trainer(config, shape, workload.capacity_tokens, placement);
  if (folder != nullptr && folder->has_weights() && !config.random_init) {
    trainer.model().load(*folder, static_cast<uint64_t>(config.seed));
  } else {
    trainer.model().initialise(static_cast<uint64_t>(config.seed));
  }
  result.memory.merge(trainer.loaded());
  if (config.eval_on_start && !workload.evaluations.empty()) {
    result.memory.merge(trainer.evaluate(batches_of(workload.evaluations)).memory);
  }
  for (const train::StepShape& step : workload.steps) play(trainer, step, config.learning_rate, result);
  if (!workload.evaluations.empty()) result.memory.merge(trainer.evaluate(batches_of(workload.evaluations)).memory);
  result.memory.merge(trainer.saving([] {}));
  result.timeline = placement.ledger->peak_timeline();
  return result;
}

DryRun dry_run_cpu(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
                   const Workload& workload) {
  ledger::Ledger ledger;
  const at::Device device = phantom::device();
  ledger::Ledger* previous = phantom::set_ledger(&ledger);
  struct Restore {
    ledger::Ledger* ledger;
    ~Restore() { phantom::set_ledger(ledger); }
  } const restore{previous};
  return dry_run(config, shape, folder, workload, {device, &ledger, nullptr});
}

}  // namespace fathom::plan
