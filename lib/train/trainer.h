// One training step: the code that runs on the CPU, on CUDA and on both phantoms alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "checkpoint/named_tensors.h"
#include "config/run_config.h"
#include "dist/group.h"
#include "dist/sharded_parameters.h"
#include "model/offloaded_layers.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "train/evaluator.h"
#include "train/gradient_keeper.h"
#include "train/phase_clock.h"

namespace fathom::train {

struct StepResult {
  double loss = 0;              // mean over the step's target tokens, with router_loss, or over its preferences
  double router_loss = 0;       // mean of what routers add in each micro-batch
  double gradient_norm = 0;     // before clipping
  bool skipped = false;         // gradients overflowed: nothing was updated, and the loss scale is halved
  int64_t counted = 0;          // what the loss is a mean over
  std::vector<double> numbers;  // means of Evaluator::number_names over the same
  int64_t token_count = 0;      // without padding
  memory::Memory memory;        // of this step alone
};

// What a config whose products are in FP16 can say for BF16 in its place.
std::string instead_of_fp16(const config::RunConfig& config);

class Trainer {
 public:
  // Makes the model (uninitialised), the optimizer's states and the batch ring on the device, within the load phase,
  // which stays open until `loaded`.
  Trainer(const arch::Run& run, const BatchCapacity& capacity, const Placement& placement);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  Evaluator& evaluator() { return *evaluator_; }
  model::Decoder& model() { return evaluator_->model(); }
  optim::Optimizer& optimizer() { return *optimizer_; }
  // What a checkpoint keeps: the trained parameters and the optimizer's states, whole.
  checkpoint::NamedTensors parameters() const;
  checkpoint::NamedTensors states() const;
  bool holds_shares() const { return sharded_ != nullptr; }  // of parameters
  // Where products are in FP16.
  const std::optional<optim::LossScale>& loss_scale() const { return loss_scale_; }
  void set_loss_scale(const optim::LossScale& scale) { loss_scale_ = scale; }
  const Placement& placement() const { return placement_; }
  int64_t host_bytes() const;  // of states and weights in the host's memory
  // That the device took for the phases of all steps but the first; waits until it is done.
  plan::StepParts<double> phase_seconds();
  // Ends the load phase; returns its memory.
  memory::Memory loaded();

  // Forward and backward of each micro-batch, clipping, one optimizer update, gradients cleared; of several processes
  // each gives its own micro-batches, of which there may be none, and the result is that of all. The loss of a
  // micro-batch is its sum over target tokens, or preferences, divided by those of the whole step, with its share of
  // the mean of what routers add in each. Where the loss or the gradient norm is not finite, the step is skipped while
  // a loss scale can be lowered; else Error is thrown, before the weights are touched (with optimizer_in_backward after
  // it), naming where it was first seen. before_update: called before the first weight or optimizer state changes.
  // of_all: where the other processes are only played, how many micro-batches all have; 0: as many each as this one.
  StepResult step(std::span<const data::Batch> micro_batches, double learning_rate,
                  const std::function<void()>& before_update = nullptr, int64_t of_all = 0);
  Evaluation evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop = nullptr,
                      const char* what = "evaluating") {
    return evaluator_->evaluate(count, batch_at, stop, what);
  }
  Evaluation evaluate(std::span<const data::Batch> batches) { return evaluator_->evaluate(batches); }
  Answers answer(int64_t count, const PromptsAt& prompts_at, const std::function<bool()>& stop = nullptr) {
    return evaluator_->answer(count, prompts_at, stop);
  }
  // Throws Error, naming the first parameter that is not finite and a remedy, unless all are. `when` begins the
  // message. Reads every weight: for where there is reason to doubt.
  void require_finite_weights(const std::string& when = "", bool trained_too = true) const;
  // Of what this run has not set already.
  std::string remedy_for_not_finite() const;
  // Runs `save` as the save phase; returns its memory.
  memory::Memory saving(const std::function<void()>& save);

 private:
  bool is_alone() const { return placement_.group == nullptr; }
  std::unique_ptr<GradientKeeper> make_gradient_keeper();
  void begin(memory::Phase phase);  // of a step
  void end();
  void count_for_all(StepResult& result, int64_t& micro_batches) const;
  at::Tensor accumulate(const DeviceBatch& batch, double denominator, double router_share,
                        const GradientKeeper::Round& round);
  // read_losses: called once the norm of the gradients is being made.
  void update(double learning_rate, const std::function<void()>& before_update,
              const std::function<void()>& read_losses, StepResult& result);
  bool may_update(const StepResult& result);
  [[noreturn]] void fail_not_finite(double loss) const;
  const model::Parameter* first_not_finite(bool trained_too) const;  // null: all are finite

  config::RunConfig config_;
  arch::Precision precision_;
  Placement placement_;
  std::unique_ptr<dist::ShardedParameters> sharded_;   // null: this process has all parameters
  std::unique_ptr<model::OffloadedLayers> offloaded_;  // null: they lie on the device
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<model::Parameter> held_, trained_;  // here, whole or in shares; of these, those that are trained
  std::unique_ptr<GradientKeeper> gradients_;
  std::optional<optim::LossScale> loss_scale_;
  PhaseClock clock_;
};

}  // namespace fathom::train
