// Batches through the model, without gradients or for a step.
#include "train/evaluator.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "arch/parameter_table.h"
#include "base/log.h"
#include "ops/autocast.h"
#include "ops/scalar_type.h"
#include "ops/tf32.h"
#include "schedule/step_order.h"

namespace fathom::train {
namespace {

// The line in place of a terminal, for evaluations that are waited for.
class EvaluationProgress {
 public:
  EvaluationProgress(const char* what, int64_t batches) : what_(what), batches_(batches) {}
  EvaluationProgress(const EvaluationProgress&) = delete;
  EvaluationProgress& operator=(const EvaluationProgress&) = delete;
  ~EvaluationProgress() {
    if (shown_) log_progress("");
  }

  void done(int64_t batches) {
    constexpr std::chrono::milliseconds kBetweenLines{500};
    const Clock::time_point now = Clock::now();
    if (now - last_ < kBetweenLines) return;
    log_progress(std::string(what_) + ": batch " + std::to_string(batches) + "/" + std::to_string(batches_));
    last_ = now;
    shown_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  const char* what_;
  int64_t batches_;
  Clock::time_point last_ = Clock::now();
  bool shown_ = false;
};

}  // namespace

void claim_workspaces(const Placement& placement) {
  if (placement.cuda != nullptr) placement.cuda->claim_workspaces();
}

memory::Memory label(const Placement& placement) {
  claim_workspaces(placement);
  return placement.ledger->label();
}

model::ModelOptions model_options(const arch::Run& run, const Placement& placement) {
  const config::RunConfig& config = run.config;
  model::ModelOptions options;
  options.device = placement.device;
  options.parameters = run.settings;
  options.fake_activations = config.qat_activations == config::QatActivations::kInt8;
  options.fp8_products = config.fp8;
  options.attention = config.attn_implementation;
  options.cuda_kernels = config.cuda_kernels.value_or(false);
  options.gradient_checkpointing = config.gradient_checkpointing;
  options.ledger = placement.ledger;
  return options;
}

std::optional<at::ScalarType> autocast_type(const arch::Precision& precision) {
  return precision.autocast ? std::optional(ops::scalar_type(*precision.autocast)) : std::nullopt;
}

Evaluator::Evaluator(const arch::Run& run, const model::ModelOptions& options, const BatchCapacity& capacity,
                     const Placement& placement)
    : placement_(placement),
      autocast_(autocast_type(run.precision)),
      loss_chunk_(run.config.loss_chunk_size),
      model_(run.architecture, options),
      ring_(capacity,
            {.rows = run.config.loss_chunk_size > 0,
             .documents = run.config.packing,
             .padding = run.architecture.router_aux_loss_coef > 0},
            placement.device, *placement.ledger) {
  ops::use_tf32(run.config.tf32, placement.device);
}

at::Tensor Evaluator::loss(const DeviceBatch& batch, double denominator, double gradient_scale, double router_share) {
  const ops::AutocastScope autocast(placement_.device.type(), autocast_);
  return model_.loss(batch.inputs, {batch.rows_N, batch.targets_N, denominator, loss_chunk_, gradient_scale, true},
                     router_share);
}

Evaluation Evaluator::evaluate(std::span<const data::Batch> batches) {
  return evaluate(std::ssize(batches), [&](int64_t index) { return batches[static_cast<size_t>(index)]; });
}

Evaluation Evaluator::evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop) {
  Evaluation result;
  const at::NoGradGuard no_gradients;
  model_.set_training(false);
  placement_.ledger->begin_phase(memory::Phase::kEvaluation);
  EvaluationProgress progress("evaluating", count);
  // By batches, so that several processes, each of which takes its share, add up in the order of one.
  std::vector<double> losses(static_cast<size_t>(count)), targets(losses.size());
  for (int64_t index = placement_.rank(); index < count; index += placement_.processes()) {
    claim_workspaces(placement_);
    const data::Batch batch = batch_at(index);
    losses[static_cast<size_t>(index)] = loss(put(batch), 1).item<double>();
    targets[static_cast<size_t>(index)] = static_cast<double>(batch.target_count);
    progress.done(index + 1);
    result.complete = !stop || !stop();
    if (!result.complete) break;
  }
  const bool others_go_on = schedule::others_have_one_more(count, placement_.rank(), placement_.processes());
  if (others_go_on && model_.options().units != nullptr) {
    model_.options().units->idle_pass();
  }
  placement_.ledger->end_phase();
  if (placement_.group != nullptr) {
    placement_.group->sum(losses);
    placement_.group->sum(targets);
  }
  const double target_count = std::accumulate(targets.begin(), targets.end(), 0.0);
  result.target_count = static_cast<int64_t>(target_count);
  result.loss = std::accumulate(losses.begin(), losses.end(), 0.0) / std::max(1.0, target_count);
  result.memory = label(placement_);
  return result;
}

Answers Evaluator::answer(int64_t count, const PromptsAt& prompts_at, const std::function<bool()>& stop) {
  Answers result;
  placement_.ledger->begin_phase(memory::Phase::kEvaluation);
  EvaluationProgress progress("answering", count);
  for (int64_t index = 0; index < count && result.complete; ++index) {
    claim_workspaces(placement_);
    // Of each batch, so that none finds the copies of weights that the one before it made.
    const ops::AutocastScope autocast(placement_.device.type(), autocast_);
    for (std::vector<int32_t>& ids : continue_greedily(model_, prompts_at(index))) result.ids.push_back(std::move(ids));
    progress.done(index + 1);
    result.complete = !stop || !stop();
  }
  placement_.ledger->end_phase();
  result.memory = label(placement_);
  return result;
}

}  // namespace fathom::train
