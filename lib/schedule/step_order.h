// The order of a run: which examples each optimizer step takes, and the batches that they make.
#pragma once

#include <cstdint>
#include <vector>

#include "config/run_config.h"
#include "data/batch.h"
#include "data/packing.h"

namespace fathom::schedule {

// Optimizer steps of a run: groups of gradient_accumulation_steps batches for each of its processes; a group never
// crosses the end of a pass.
class StepOrder {
 public:
  // Throws UsageError if the run would take more than ten million steps, or has fewer batches than processes.
  StepOrder(const config::RunConfig& config, const data::Dataset& dataset);
  int64_t steps_per_epoch() const { return steps_per_epoch_; }
  int64_t total_steps() const { return total_steps_; }
  // The example rows of each micro-batch of the next step, of all processes; moves the position. With packing a
  // micro-batch is per_device_train_batch_size bins of at most max_length tokens, and its rows lie end to end.
  std::vector<std::vector<int64_t>> next();
  // Counts examples, or bins.
  data::Position position() const { return sampler_.position(); }
  void seek(data::Position position) { sampler_.seek(position); }

 private:
  data::Bins bins_;
  bool packing_;
  data::Sampler sampler_;
  int64_t accumulation_;
  int64_t steps_per_epoch_;
  int64_t total_steps_ = 0;
};

// Of what all processes of a run do, one after the other, that which process `rank` does: every num_processes-th.
template <typename Value>
std::vector<Value> share_of(const config::RunConfig& config, int64_t rank, std::vector<Value> all) {
  if (config.num_processes == 1) return all;
  std::vector<Value> own;
  for (size_t i = static_cast<size_t>(rank); i < all.size(); i += static_cast<size_t>(config.num_processes)) {
    own.push_back(std::move(all[i]));
  }
  return own;
}

// Whether, of so many batches, others of `processes` have one more than the process `rank`.
constexpr bool others_have_one_more(int64_t batches, int64_t rank, int64_t processes) {
  const int64_t left_over = batches % processes;
  return left_over > 0 && rank >= left_over;
}

// Steps from one evaluation to the next, of eval_strategy: steps.
int64_t evaluation_steps(const config::RunConfig& config);
// The most checkpoints that a run saves from this step on: each evaluation may be the best.
int64_t saves_to_come(const config::RunConfig& config, const StepOrder& order, int64_t step);
// The config without evaluations between steps, and what rests on them, if the run of these examples ends before the
// first of them.
config::RunConfig without_late_evaluations(config::RunConfig config, const data::Dataset& dataset);

// The rows of consecutive batches over the dataset in file order, as an evaluation takes them; with packing, of bins.
std::vector<std::vector<int64_t>> evaluation_rows(const config::RunConfig& config, const data::Dataset& dataset);

// The rows as a run's batches have them: padded, or packed.
data::Batch batch_of(const config::RunConfig& config, const data::Dataset& dataset, const std::vector<int64_t>& rows,
                     int32_t pad_id);

}  // namespace fathom::schedule
