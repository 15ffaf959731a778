// The dry run: load, the steps that matter, evaluation, save, on hardware that is not there.
#include "play/dry_run.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/seconds_since.h"
#include "phantom/device.h"
#include "phantom_gpu/gpu.h"
#include "play/arithmetic_count.h"
#include "play/kernel_recorder.h"
#include "play/repeats.h"

namespace fathom::play {
namespace {

data::Batch shape_only(const schedule::BatchShape& shape) {
  data::Batch batch;
  batch.rows = shape.rows;
  batch.length = shape.length;
  batch.token_count = shape.rows * shape.length;
  batch.target_count = shape.targets;
  batch.document_lengths = shape.document_lengths;
  batch.source_length = shape.source_length;
  return batch;
}

std::vector<data::Batch> batches_of(const std::vector<schedule::BatchShape>& shapes) {
  std::vector<data::Batch> batches;
  batches.reserve(shapes.size());
  for (const schedule::BatchShape& shape : shapes) batches.push_back(shape_only(shape));
  return batches;
}

// Counts what steps compute while they are played, without what repeats itself and is left out.
class Counter {
 public:
  // leaves_out: unset: nothing.
  Counter(const train::Placement& placement, bool counts, std::optional<Repeats::LeavesOut> leaves_out,
          const plan::OperatorTimes* times) {
    if (counts) count_.emplace(placement.device.type(), nullptr, times, placement.ledger);
    if (leaves_out) repeats_.emplace(placement, count_ ? &*count_ : nullptr, *leaves_out);
  }
  bool counts() const { return count_.has_value(); }
  plan::StepArithmetic sum() const {
    return count_->parts() + (repeats_ ? repeats_->left_out() : plan::StepArithmetic());
  }

 private:
  std::optional<ArithmeticCount> count_;
  std::optional<Repeats> repeats_;  // knows of the count
};

// Goes through a schedule, and plays of it what may be new, or all.
class Player {
 public:
  // longest: the step whose arithmetic is wanted.
  Player(const schedule::Schedule& schedule, bool all, double learning_rate, train::Trainer& trainer,
         const Counter& counter, const schedule::StepShape& longest, DryRun& result)
      : schedule_(schedule),
        all_(all),
        learning_rate_(learning_rate),
        trainer_(trainer),
        counter_(counter),
        longest_(longest),
        result_(result) {
    actual_ = reached_ = observe();
  }

  void play() {
    for (const int32_t event : schedule_.events) happen(event);
    // How many passes answers take, and with them the order in which a GPU's allocator is asked, is the model's to say.
    result_.exact = schedule_.answers.empty() && (schedule_.all_events || (schedule_.all_shapes && nothing_is_new()));
  }

 private:
  using State = uint64_t;
  State observe() const { return memory_state(trainer_.placement()); }

  // The batches of an evaluation are events of their own, beside those of the schedule.
  static int32_t event_of_batch(int32_t batch) { return schedule::Schedule::kEvaluation - 1 - batch; }
  // So are the answers of a shape, behind them, and behind these the end of a pass that others alone have a batch of.
  int32_t event_of_answers(size_t shape) const {
    return event_of_batch(static_cast<int32_t>(schedule_.evaluation.size() + shape));
  }
  int32_t event_of_others() const { return event_of_answers(schedule_.answers.size()); }

  void happen(int32_t event) {
    if (event == schedule::Schedule::kReference) {
      for (const int32_t batch : schedule_.reference_order) pass(event_of_batch(batch));
      return;
    }
    if (event != schedule::Schedule::kEvaluation) return pass(event);
    for (const int32_t batch : schedule_.evaluation_order) pass(event_of_batch(batch));
    if (schedule_.others_evaluate_one_more) pass(event_of_others());
    for (size_t shape = 0; shape < schedule_.answers.size(); ++shape) pass(event_of_answers(shape));
  }

  void pass(int32_t event) {
    if (all_) return take(event);
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
      play_step(static_cast<size_t>(event));
    } else {
      result_.memory.merge(evaluate(static_cast<size_t>(event_of_batch(event))));
    }
    actual_ = observe();
    known_[{before, event}] = actual_;
  }

  // By the place among what there is to evaluate.
  memory::Memory evaluate(size_t batch) {
    const size_t batches = schedule_.evaluation.size();
    if (batch == batches + schedule_.answers.size()) {  // as many batches as there are ranks before this one
      return trainer_.evaluate(std::vector<data::Batch>(static_cast<size_t>(trainer_.placement().rank()))).memory;
    }
    if (batch < batches) {
      const auto of_all = static_cast<size_t>(trainer_.placement().processes());
      return trainer_.evaluate(batches_of(schedule::StepShape(of_all, schedule_.evaluation[batch]))).memory;
    }
    return trainer_.answer(1, [&](int64_t) { return train::Prompts{schedule_.answers[batch - batches]}; }).memory;
  }

  // The first step is not counted: it may take masters from weights.
  void play_step(size_t number) {
    const schedule::StepShape& step = schedule_.steps[number];
    const int64_t of_all = number < schedule_.of_all.size() ? schedule_.of_all[number] : 0;
    const bool counts = counter_.counts() && result_.steps_played > 0 && step == longest_;
    const plan::StepArithmetic before = counts ? counter_.sum() : plan::StepArithmetic();
    result_.memory.merge(trainer_.step(batches_of(step), learning_rate_, nullptr, of_all).memory);
    result_.steps_played += 1;
    if (!counts) return;
    // Operators that were recorded are called in one step alone: that one counts.
    const plan::StepArithmetic made = counter_.sum() - before;
    if (made.whole().matrix_flops >= result_.arithmetic.whole().matrix_flops) result_.arithmetic = made;
  }

  bool nothing_is_new() const {
    const auto changes_nothing = [&](int32_t event) {
      const auto known = known_.find({reached_, event});
      return known != known_.end() && known->second == reached_;
    };
    for (int32_t step = 0; step < std::ssize(schedule_.steps); ++step) {
      if (!changes_nothing(step)) return false;
    }
    for (const int32_t batch : schedule_.evaluation_order) {
      if (!changes_nothing(event_of_batch(batch))) return false;
    }
    return !schedule_.others_evaluate_one_more || changes_nothing(event_of_others());
  }

  const schedule::Schedule& schedule_;
  bool all_;
  double learning_rate_;
  train::Trainer& trainer_;
  const Counter& counter_;
  const schedule::StepShape& longest_;
  DryRun& result_;
  std::map<std::pair<State, int32_t>, State> known_;  // what an event makes of a state
  State actual_ = 0;                                  // of the memory
  State reached_ = 0;                                 // after all events so far, those included that were not played
  std::vector<int32_t> skipped_;                      // from the one to the other
};

void load(const config::RunConfig& config, const weights::ModelFolder* folder, const plan::Workload& workload,
          train::Trainer& trainer) {
  trainer.model().reserve_positions(plan::longest_sequence(workload));
  if (folder != nullptr && folder->has_weights() && !config.random_init) {
    trainer.model().load(*folder, static_cast<uint64_t>(config.seed));
  } else {
    trainer.model().initialise(static_cast<uint64_t>(config.seed));
  }
}

}  // namespace

DryRun dry_run(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
               const train::Placement& placement, const std::function<void()>& played, plan::Detail detail,
               const plan::OperatorTimes* times) {
  DryRun result;
  const bool all = detail == plan::Detail::kEvents;
  train::Trainer trainer(run, {workload.capacity_tokens, workload.capacity_source_tokens}, placement);
  {
    std::optional<Repeats> repeats;
    if (!all) repeats.emplace(placement);  // timelines are of steps
    load(run.config, folder, workload, trainer);
  }
  result.memory.merge(trainer.loaded());
  const bool counts = detail >= plan::Detail::kArithmetic && !workload.steps.empty();
  const schedule::StepShape longest = counts ? plan::longest_step(run, workload.steps) : schedule::StepShape();
  {
    std::optional<Repeats::LeavesOut> leaves_out;
    if (!all) leaves_out = detail < plan::Detail::kTimeline ? Repeats::LeavesOut::kSteady : Repeats::LeavesOut::kQuiet;
    const Counter counter(placement, counts, leaves_out, times);
    Player(workload.schedule, all, run.config.learning_rate, trainer, counter, longest, result).play();
  }
  result.memory.merge(trainer.saving([] {}));  // what is written is written from where it lies
  if (detail >= plan::Detail::kTimeline) result.timeline = placement.ledger->peak_timeline();
  if (played) played();
  if (!counts || result.arithmetic != plan::StepArithmetic()) return result;
  try {
    const Counter counter(placement, true, Repeats::LeavesOut::kSteady, times);
    trainer.step(batches_of(longest), run.config.learning_rate);
    result.arithmetic = counter.sum();
  } catch (const c10::OutOfMemoryError&) {  // by its one play more than the run has
    result.arithmetic = plan::estimate_arithmetic(run, longest);
  }
  return result;
}

plan::KernelList list_kernels(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
                              const train::Placement& placement) {
  constexpr int kTimed = 3;  // steps
  train::Trainer trainer(run, {workload.capacity_tokens, workload.capacity_source_tokens}, placement);
  load(run.config, folder, workload, trainer);
  trainer.loaded();
  const std::vector<data::Batch> batches = batches_of(plan::longest_step(run, workload.steps));
  const auto step = [&] { trainer.step(batches, run.config.learning_rate); };
  step();  // makes states and masters
  plan::KernelList list;
  {  // of the next: what is recorded is recorded in it
    KernelRecorder recorder(*placement.ledger);
    const int64_t before = phantom_gpu::launches_of_all();
    const ArithmeticCount count(placement.device.type(), &recorder);
    step();
    count.sum();  // throws what counting has thrown
    list.launches = phantom_gpu::launches_of_all() - before;
    list.rows = recorder.rows();
  }
  const int64_t before = phantom_gpu::launches_of_all();
  step();
  list.host_launches = phantom_gpu::launches_of_all() - before;
  list.host_seconds = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTimed; ++i) {
    const auto start = std::chrono::steady_clock::now();
    step();
    list.host_seconds = std::min(list.host_seconds, seconds_since(start));
  }
  return list;
}

std::unique_ptr<dist::Group> played_group(const config::RunConfig& config, int64_t rank) {
  return config.num_processes > 1 ? dist::play(rank, config.num_processes) : nullptr;
}

DryRun dry_run_cpu(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
                   plan::Detail detail) {
  ledger::Ledger ledger;
  const at::Device device = phantom::device();
  const phantom::LedgerScope scope(ledger);
  const auto group = played_group(run.config, workload.schedule.rank);
  DryRun played = dry_run(run, folder, workload, {device, &ledger, nullptr, group.get()}, nullptr, detail);
  if (workload.schedule.all_shapes) return played;
  // Rows are multiplied in equal blocks of at most so many: those of a smaller batch, which was left out, may be
  // larger, but not twice as large.
  const int64_t larger_blocks = played.memory.kernel_scratch;
  played.memory.kernel_scratch += larger_blocks;
  played.memory.peak_with_scratch += larger_blocks;
  return played;
}

}  // namespace fathom::play
