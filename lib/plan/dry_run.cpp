// The dry run: load, the steps that matter, evaluation, save, on hardware that is not there.
#include "plan/dry_run.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "phantom/device.h"
#include "plan/arithmetic_count.h"

namespace fathom::plan {
namespace {

data::Batch shape_only(const train::BatchShape& shape) {
  data::Batch batch;
  batch.rows = shape.rows;
  batch.length = shape.length;
  batch.token_count = shape.rows * shape.length;
  batch.target_count = shape.targets;
  batch.document_lengths = shape.document_lengths;
  return batch;
}

std::vector<data::Batch> batches_of(const std::vector<train::BatchShape>& shapes) {
  std::vector<data::Batch> batches;
  batches.reserve(shapes.size());
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

Arithmetic count_step(train::Trainer& trainer, const train::StepShape& step, const config::RunConfig& config) {
  const ArithmeticCount count(trainer.placement().device.type());
  trainer.step(batches_of(step), config.learning_rate);
  return count.sum();
}

constexpr const char* kArithmetic =
    "the arithmetic of a step (per_device_train_batch_size × gradient_accumulation_steps × max_length)";

// The third and later micro-batches are alike: two steps that differ by one of them tell what each adds.
Arithmetic count_whole_step(train::Trainer& trainer, train::StepShape step, const config::RunConfig& config) {
  constexpr size_t kPlayed = 2;
  const auto missing = static_cast<int64_t>(step.size()) - static_cast<int64_t>(std::min(step.size(), kPlayed));
  step.resize(std::min(step.size(), kPlayed));
  Arithmetic sum = count_step(trainer, step, config);
  if (missing == 0) return sum;
  step.push_back(step.back());
  const Arithmetic longer = count_step(trainer, step, config);
  const auto extend = [&](int64_t& value, int64_t with_one_more) {
    value = checked_add(value, checked_multiply(missing, with_one_more - value, kArithmetic), kArithmetic);
  };
  extend(sum.matrix_flops, longer.matrix_flops);
  extend(sum.attention_flops, longer.attention_flops);
  extend(sum.bytes_moved, longer.bytes_moved);
  return sum;
}

}  // namespace

DryRun dry_run(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
               const Workload& workload, const train::Placement& placement) {
  DryRun result;
  train::Trainer trainer(config, shape, workload.capacity_tokens, placement);
  trainer.model().reserve_positions(longest_sequence(workload));
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
  if (!workload.steps.empty()) {
    result.arithmetic = count_whole_step(trainer, longest_step(shape, config, workload.steps), config);
  }
  // Not where the only evaluation comes before the first step: later ones have the backward pass's workspaces beside
  // them.
  if (config.eval_strategy != config::Cadence::kNo && !workload.evaluations.empty()) {
    result.memory.merge(trainer.evaluate(batches_of(workload.evaluations)).memory);
  }
  result.memory.merge(trainer.saving([] {}));
  result.timeline = placement.ledger->peak_timeline();
  return result;
}

DryRun dry_run_cpu(const config::RunConfig& config, const model::ModelShape& shape, const weights::ModelFolder* folder,
                   const Workload& workload) {
  ledger::Ledger ledger;
  const at::Device device = phantom::device();
  const phantom::LedgerScope scope(ledger);
  return dry_run(config, shape, folder, workload, {device, &ledger, nullptr});
}

}  // namespace fathom::plan
