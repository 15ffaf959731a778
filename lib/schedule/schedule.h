// The order of a run as a value: which steps and evaluations come after each other, with the shapes that decide their
// memory. The run asks what is due; the dry run plays the whole.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/run.h"
#include "data/batch.h"
#include "schedule/answers.h"
#include "schedule/step_order.h"
#include "schedule/steps.h"

namespace fathom::schedule {

// Whether an evaluation, or a checkpoint by save_strategy, is due after so many steps of the run.
bool evaluates_after(const config::RunConfig& config, const StepOrder& order, int64_t step);
bool saves_after(const config::RunConfig& config, const StepOrder& order, int64_t step);

// Where a run begins: before its first step, or where a checkpoint left it.
struct Start {
  int64_t step = 0;  // that are done
  data::Position position = {};
  bool evaluation_due = false;  // before the next step
  bool resumed = false;         // from a checkpoint: what comes before the first step is done
};

// What happens after loading. Saves are not in it: they read tensors and take no memory of the device.
struct Schedule {
  static constexpr int32_t kEvaluation = -1, kReference = -2;
  std::vector<StepShape> steps;  // the different ones; without a batch: other processes alone have some
  // Of each of them, how many batches all processes have in it; 0, or none for any: as many each as this one. Fewer are
  // left for the last step of a pass.
  std::vector<int64_t> of_all;
  std::vector<BatchShape> evaluation;     // the different batches of an evaluation pass, or of the reference's
  std::vector<int32_t> evaluation_order;  // of every pass, as indices into `evaluation`
  std::vector<int32_t> reference_order;   // of the pass of the model as the run starts, before its first step
  bool others_evaluate_one_more = false;  // behind them: other processes alone have a batch then
  std::vector<AnswerShape> answers;       // behind these in every pass, whose number of passes is the model's to say
  std::vector<int32_t> events;            // an index into `steps`, or kEvaluation, or kReference
  bool all_events = true;  // `events` is the whole run; else it goes on in some order with what is listed
  // Every shape of the run is listed. Else `steps` and `evaluation` are representatives: the first two steps without
  // what repeats itself between their first and their last micro-batch, then steps made up of shapes, in the order in
  // which the run meets them first, and the first one that not all processes have as many batches of. Each shape of the
  // run is covered by one of these (schedule/frontier.h) that a step treats alike.
  bool all_shapes = true;
  Extent extent;     // of all shapes of the run, listed or not
  int64_t rank = 0;  // of the process whose share it is
  bool operator==(const Schedule&) const = default;
};

// How much of a run is played as it is, in decoder layers of a micro-batch forwards and backwards; what needs more is
// represented. A layer is played in about 0.2 (small shapes) to 0.6 ms (large ones) on one core. On a GPU the caching
// allocator remembers the order of what came before, so that only the whole order is exact; on a CPU live bytes do not.
constexpr int64_t played_on(bool gpu) { return gpu ? 4'000 : 500; }

// The schedule of a run on these data from `start` to its end, in the process of this rank. `played` as above. Throws
// UsageError as StepOrder does.
Schedule make_schedule(const arch::Run& run, const data::Dataset& train, const data::Dataset& validation,
                       const Start& start, int64_t played, int64_t rank = 0);

// Of a run that nobody has data for: each of these steps over and over until nothing new can come, then an evaluation.
// reference: batches of the reference's pass; none where the objective asks for no reference.
Schedule imagined_schedule(const std::vector<StepShape>& steps, const std::vector<BatchShape>& evaluation,
                           const std::vector<BatchShape>& reference = {});

}  // namespace fathom::schedule
