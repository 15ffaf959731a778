// The dry run: load, the steps that matter, evaluation, save, on hardware that is not there.
#include "play/dry_run.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "phantom/device.h"
#include "play/arithmetic_count.h"

namespace fathom::play {
namespace {

data::Batch shape_only(const schedule::BatchShape& shape) {
  data::Batch batch;
  batch.rows = shape.rows;
  batch.length = shape.length;
  batch.token_count = shape.rows * shape.length;
  batch.target_count = shape.targets;
  batch.document_lengths = shape.document_lengths;
  return batch;
}

std::vector<data::Batch> batches_of(const std::vector<schedule::BatchShape>& shapes) {
  std::vector<data::Batch> batches;
  batches.reserve(shapes.size());
  for (const schedule::BatchShape& shape : shapes) batches.push_back(shape_only(shape));
  return batches;
}

plan::Arithmetic count_step(train::Trainer& trainer, const schedule::StepShape& step, const config::RunConfig& config) {
  const ArithmeticCount count(trainer.placement().device.type());
  trainer.step(batches_of(step), config.learning_rate);
  return count.sum();
}

constexpr const char* kArithmetic =
    "the arithmetic of a step (per_device_train_batch_size × gradient_accumulation_steps × max_length)";

// The third and later micro-batches are alike: two steps that differ by one of them tell what each adds.
plan::Arithmetic count_whole_step(train::Trainer& trainer, schedule::StepShape step, const config::RunConfig& config) {
  constexpr size_t kPlayed = 2;
  const auto missing = static_cast<int64_t>(step.size()) - static_cast<int64_t>(std::min(step.size(), kPlayed));
  step.resize(std::min(step.size(), kPlayed));
  plan::Arithmetic sum = count_step(trainer, step, config);
  if (missing == 0) return sum;
  step.push_back(step.back());
  const plan::Arithmetic longer = count_step(trainer, step, config);
  const auto extend = [&](int64_t& value, int64_t with_one_more) {
    value = checked_add(value, checked_multiply(missing, with_one_more - value, kArithmetic), kArithmetic);
  };
  extend(sum.matrix_flops, longer.matrix_flops);
  extend(sum.attention_flops, longer.attention_flops);
  extend(sum.bytes_moved, longer.bytes_moved);
  return sum;
}

// Goes through a schedule, and plays of it what may be new.
class Player {
 public:
  Player(const schedule::Schedule& schedule, double learning_rate, train::Trainer& trainer, DryRun& result)
      : schedule_(schedule), learning_rate_(learning_rate), trainer_(trainer), result_(result) {
    actual_ = reached_ = observe();
  }

  void play() {
    for (const int32_t event : schedule_.events) happen(event);
    result_.exact = schedule_.all_events || (schedule_.all_shapes && nothing_is_new());
  }

 private:
  using State = uint64_t;  // of the device's memory: in equal ones the same requests have the same answers

  // Live bytes are all that a CPU's allocator tells.
  State observe() const {
    const train::Placement& placement = trainer_.placement();
    return placement.cuda != nullptr ? placement.cuda->layout() : static_cast<State>(placement.ledger->live_bytes());
  }

  // The batches of an evaluation are events of their own, beside those of the schedule.
  static int32_t event_of_batch(int32_t batch) { return schedule::Schedule::kEvaluation - 1 - batch; }

  void happen(int32_t event) {
    if (event != schedule::Schedule::kEvaluation) return pass(event);
    for (const int32_t batch : schedule_.evaluation_order) pass(event_of_batch(batch));
  }

  void pass(int32_t event) {
    if (const auto known = known_.find({reached_, event}); known != known_.end()) {
      reached_ = known->second;
      skipped_.push_back(event);
    } else {
      for (const int32_t missed : std::exchange(skipped_, {})) take(missed);
      take(event);
      reached_ = actual_;
    }
    if (reached_ == actual_) skipped_.clear();
  }

  void take(int32_t event) {
    const State before = actual_;
    if (event >= 0) {
      const auto batches = batches_of(schedule_.steps[static_cast<size_t>(event)]);
      result_.memory.merge(trainer_.step(batches, learning_rate_).memory);
      result_.steps_played += 1;
    } else {
      const auto batch = static_cast<size_t>(event_of_batch(event));
      result_.memory.merge(trainer_.evaluate(batches_of({schedule_.evaluation[batch]})).memory);
    }
    actual_ = observe();
    known_[{before, event}] = actual_;
  }

  bool nothing_is_new() const {
    const auto changes_nothing = [&](int32_t event) {
      const auto known = known_.find({reached_, event});
      return known != known_.end() && known->second == reached_;
    };
    for (int32_t step = 0; step < std::ssize(schedule_.steps); ++step) {
      if (!changes_nothing(step)) return false;
    }
    for (int32_t batch = 0; batch < std::ssize(schedule_.evaluation); ++batch) {
      if (!changes_nothing(event_of_batch(batch))) return false;
    }
    return true;
  }

  const schedule::Schedule& schedule_;
  double learning_rate_;
  train::Trainer& trainer_;
  DryRun& result_;
  std::map<std::pair<State, int32_t>, State> known_;  // what an event makes of a state
  State actual_ = 0;                                  // of the memory
  State reached_ = 0;                                 // after all events so far, those included that were not played
  std::vector<int32_t> skipped_;                      // from the one to the other
};

}  // namespace

DryRun dry_run(const config::RunConfig& config, const arch::Architecture& architecture,
               const weights::ModelFolder* folder, const plan::Workload& workload, const train::Placement& placement,
               const std::function<void()>& played, bool counts) {
  DryRun result;
  train::Trainer trainer(config, architecture, workload.capacity_tokens, placement);
  trainer.model().reserve_positions(plan::longest_sequence(workload));
  if (folder != nullptr && folder->has_weights() && !config.random_init) {
    trainer.model().load(*folder, static_cast<uint64_t>(config.seed));
  } else {
    trainer.model().initialise(static_cast<uint64_t>(config.seed));
  }
  result.memory.merge(trainer.loaded());
  Player(workload.schedule, config.learning_rate, trainer, result).play();
  result.memory.merge(trainer.saving([] {}));
  result.timeline = placement.ledger->peak_timeline();
  if (played) played();
  if (workload.steps.empty() || !counts) return result;
  const schedule::StepShape longest = plan::longest_step(architecture, config, workload.steps);
  try {
    result.arithmetic = count_whole_step(trainer, longest, config);
  } catch (const c10::OutOfMemoryError&) {  // by its one play more than the run has
    result.arithmetic = plan::estimate_arithmetic(architecture, config, longest);
  }
  return result;
}

DryRun dry_run_cpu(const config::RunConfig& config, const arch::Architecture& architecture,
                   const weights::ModelFolder* folder, const plan::Workload& workload) {
  ledger::Ledger ledger;
  const at::Device device = phantom::device();
  const phantom::LedgerScope scope(ledger);
  return dry_run(config, architecture, folder, workload, {device, &ledger, nullptr});
}

}  // namespace fathom::play
