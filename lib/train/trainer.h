// One training step, one evaluation: the code that runs on the CPU, on CUDA and on both phantoms alike.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "checkpoint/named_tensors.h"
#include "config/run_config.h"
#include "data/batch.h"
#include "dist/gradient_buckets.h"
#include "dist/group.h"
#include "dist/sharded_parameters.h"
#include "ledger/cuda.h"
#include "ledger/ledger.h"
#include "model/decoder.h"
#include "optim/loss_scale.h"
#include "optim/optimizer.h"
#include "train/batch_ring.h"
#include "train/greedy.h"

namespace fathom::train {

// Where a trainer's tensors live, who counts them, and with whom it trains.
struct Placement {
  at::Device device = at::kCPU;
  ledger::Ledger* ledger = nullptr;    // of that device; never null
  ledger::CudaDevice* cuda = nullptr;  // on CUDA, real or phantom: its allocator's statistics and workspaces
  dist::Group* group = nullptr;        // null: alone

  int64_t rank() const { return group == nullptr ? 0 : group->rank(); }
  int64_t processes() const { return group == nullptr ? 1 : group->size(); }
  bool is_first() const { return rank() == 0; }
};

struct StepResult {
  double loss = 0;           // mean over the step's target tokens, with router_loss
  double router_loss = 0;    // mean of what routers add in each micro-batch
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // gradients overflowed: nothing was updated, and the loss scale is halved
  int64_t target_count = 0;
  int64_t token_count = 0;  // without padding
  memory::Memory memory;    // of this step alone
};

struct Evaluation {
  double loss = 0;  // mean over target tokens, not over batches
  int64_t target_count = 0;
  bool complete = true;  // false: stopped early, the loss is of the batches so far
  memory::Memory memory;
};

struct Answers {
  std::vector<std::vector<int32_t>> ids;  // of each row, batch after batch
  bool complete = true;                   // false: stopped early
  memory::Memory memory;
};

// How a config wants its model built.
model::ModelOptions model_options(const config::RunConfig& config, const arch::Architecture& architecture,
                                  const Placement& placement);

// In which autocast multiplies, nullopt where it is off.
std::optional<at::ScalarType> autocast_type(const config::RunConfig& config);

using BatchAt = std::function<data::Batch(int64_t index)>;
using PromptsAt = std::function<Prompts(int64_t index)>;

// A model with its ring of batches: what evaluation takes, and all of training but the optimizer.
class Evaluator {
 public:
  // Makes the model (uninitialised) and the batch ring on the device. options: model_options, or what the caller made
  // of them.
  Evaluator(const config::RunConfig& config, const arch::Architecture& architecture, const model::ModelOptions& options,
            const BatchCapacity& capacity, const Placement& placement);

  model::Decoder& model() { return model_; }
  // Takes batch_at(0) to batch_at(count - 1), each made when its turn comes. stop: asked after each batch; once it says
  // true the evaluation ends there, incomplete.
  Evaluation evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop = nullptr);
  Evaluation evaluate(std::span<const data::Batch> batches);
  // Likewise, a part of an evaluation: what the model answers to prompts_at(0) to prompts_at(count - 1).
  Answers answer(int64_t count, const PromptsAt& prompts_at, const std::function<bool()>& stop = nullptr);
  // Copies the batch into the ring.
  DeviceBatch put(const data::Batch& batch) { return ring_.put(batch); }
  // The sum of the batch's losses divided by `denominator`, an FP32 scalar on the device; never holds more logits than
  // a chunk of loss_chunk_size rows. Its gradients are multiplied by gradient_scale. router_share: as Decoder::loss.
  at::Tensor loss(const DeviceBatch& batch, double denominator, double gradient_scale = 1, double router_share = 1);

 private:
  Placement placement_;
  std::optional<at::ScalarType> autocast_;
  int64_t loss_chunk_;
  model::Decoder model_;
  BatchRing ring_;
};

// What a config whose products are in FP16 can say for BF16 in its place.
std::string instead_of_fp16(const config::RunConfig& config);

class Trainer {
 public:
  // Makes the model (uninitialised), the optimizer's states and the batch ring on the device, within the load phase,
  // which stays open until `loaded`.
  Trainer(const config::RunConfig& config, const arch::Architecture& architecture, const BatchCapacity& capacity,
          const Placement& placement);
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
  // Ends the load phase; returns its memory.
  memory::Memory loaded();

  // Forward and backward of each micro-batch, clipping, one optimizer update, gradients cleared; of several processes
  // each gives its own micro-batches, of which there may be none, and the result is that of all. The loss of a
  // micro-batch is its sum over target tokens divided by the target tokens of the whole step, with its share of the
  // mean of what routers add in each. Where the loss or the gradient norm is not finite, the step is skipped while a
  // loss scale can be lowered; else Error is thrown, before the weights are touched, naming where it was first seen.
  // before_update: called before the first weight or optimizer state changes. of_all: where the other processes are
  // only played, how many micro-batches all have; 0: as many each as this one.
  StepResult step(std::span<const data::Batch> micro_batches, double learning_rate,
                  const std::function<void()>& before_update = nullptr, int64_t of_all = 0);
  Evaluation evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop = nullptr) {
    return evaluator_->evaluate(count, batch_at, stop);
  }
  Evaluation evaluate(std::span<const data::Batch> batches) { return evaluator_->evaluate(batches); }
  Answers answer(int64_t count, const PromptsAt& prompts_at, const std::function<bool()>& stop = nullptr) {
    return evaluator_->answer(count, prompts_at, stop);
  }
  // Throws Error, naming the first parameter that is not finite and a remedy, unless all are. `when` begins the
  // message. Reads every weight: for where there is reason to doubt.
  void require_finite_weights(const std::string& when = "") const;
  // Of what this run has not set already.
  std::string remedy_for_not_finite() const;
  // Runs `save` as the save phase; returns its memory.
  memory::Memory saving(const std::function<void()>& save);

 private:
  bool is_alone() const { return placement_.group == nullptr; }
  void count_for_all(StepResult& result, int64_t& micro_batches) const;
  using Round = dist::ShardedParameters::Round;
  at::Tensor accumulate(const DeviceBatch& batch, double denominator, double router_share, const Round& round);
  // read_losses: called once the norm of the gradients is being made.
  void update(double learning_rate, const std::function<void()>& before_update,
              const std::function<void()>& read_losses, StepResult& result);
  bool may_update(const StepResult& result);
  [[noreturn]] void fail_not_finite(double loss) const;

  config::RunConfig config_;
  Placement placement_;
  std::unique_ptr<dist::ShardedParameters> sharded_;  // null: this process has all parameters
  std::unique_ptr<Evaluator> evaluator_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<model::Parameter> held_, trained_;    // here, whole or in shares; of these, those that are trained
  std::unique_ptr<dist::GradientBuckets> buckets_;  // of several processes that each have all parameters
  std::optional<optim::LossScale> loss_scale_;
};

}  // namespace fathom::train
