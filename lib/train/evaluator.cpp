// Batches through the model, without gradients or for a step.
#include "train/evaluator.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "arch/parameter_table.h"
#include "base/log.h"
#include "ops/autocast.h"
#include "ops/scalar_type.h"
#include "ops/tf32.h"
#include "report/preference_numbers.h"
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

std::optional<ops::PreferenceOptions> preference_options(const config::RunConfig& run) {
  if (!config::row_of(run.objective).learns_preferences()) return std::nullopt;
  return ops::PreferenceOptions{run.objective, run.loss_type, run.beta, run.label_smoothing, run.simpo_gamma};
}

// In a batch of the run.
int64_t most_rows(const config::RunConfig& run) {
  return config::rows_of(run, std::max(run.per_device_train_batch_size, run.per_device_eval_batch_size));
}

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
      rows_of_example_(config::row_of(run.config.objective).rows),
      preferences_(preference_options(run.config)),
      model_(run.architecture, options),
      ring_(capacity,
            {.rows = run.config.loss_chunk_size > 0,
             .documents = run.config.packing,
             .padding = run.architecture.router_aux_loss_coef > 0,
             .sequences = preferences_ ? most_rows(run.config) : 0},
            placement.device, *placement.ledger) {
  ops::use_tf32(run.config.tf32, placement.device);
}

at::Tensor Evaluator::loss(const DeviceBatch& batch, double denominator, double gradient_scale, double router_share) {
  const ops::AutocastScope autocast(placement_.device.type(), autocast_);
  if (preferences_) {
    const at::Tensor logps_B =
        model_.sequence_logprobs(batch.inputs, batch.rows_N, batch.targets_N, loss_chunk_, gradient_scale);
    ops::PreferenceLoss result =
        ops::preference_loss(logps_B, batch.reference_B, batch.lengths_B, denominator, *preferences_);
    numbers_K_ = std::move(result.numbers_K);
    if (!at::GradMode::is_enabled()) row_logprobs_B_ = logps_B;
    return result.loss;
  }
  return model_.loss(batch.inputs, {batch.rows_N, batch.targets_N, denominator, loss_chunk_, gradient_scale, true},
                     router_share);
}

Evaluation Evaluator::evaluate(std::span<const data::Batch> batches) {
  return evaluate(std::ssize(batches), [&](int64_t index) { return batches[static_cast<size_t>(index)]; });
}

int64_t Evaluator::counted(const data::Batch& batch) const {
  return preferences_ ? batch.rows / rows_of_example_ : batch.target_count;
}

std::span<const std::string_view> Evaluator::number_names() const {
  if (!preferences_) return {};
  return report::kPreferenceNumbers;
}

report::Scalars Evaluator::named(const std::vector<double>& values, std::string_view prefix) const {
  report::Scalars scalars;
  for (size_t i = 0; i < values.size(); ++i) {
    scalars.emplace_back(std::string(prefix).append(number_names()[i]), values[i]);
  }
  return scalars;
}

// What the last batch has beside its loss.
void Evaluator::add_rows(Evaluation& result, std::vector<double>& sums) {
  const at::Tensor numbers_K = take_numbers().cpu();
  const at::Tensor rows_B = std::exchange(row_logprobs_B_, at::Tensor()).cpu();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] += numbers_K.const_data_ptr<float>()[i];
  const float* rows = rows_B.const_data_ptr<float>();
  result.row_logprobs.insert(result.row_logprobs.end(), rows, rows + rows_B.numel());
}

Evaluation Evaluator::evaluate(int64_t count, const BatchAt& batch_at, const std::function<bool()>& stop,
                               const char* what) {
  Evaluation result;
  const at::NoGradGuard no_gradients;
  model_.set_training(false);
  placement_.ledger->begin_phase(memory::Phase::kEvaluation);
  EvaluationProgress progress(what, count);
  std::vector<double> sums(number_names().size());
  // By batches, so that several processes, each of which takes its share, add up in the order of one.
  std::vector<double> losses(static_cast<size_t>(count)), targets(losses.size()), weights(losses.size());
  for (int64_t index = placement_.rank(); index < count; index += placement_.processes()) {
    claim_workspaces(placement_);
    const data::Batch batch = batch_at(index);
    losses[static_cast<size_t>(index)] = loss(put(batch), 1).item<double>();
    targets[static_cast<size_t>(index)] = static_cast<double>(batch.target_count);
    weights[static_cast<size_t>(index)] = static_cast<double>(counted(batch));
    if (preferences_) add_rows(result, sums);
    progress.done(index + 1);
    const bool is_last = index + placement_.processes() >= count;
    result.complete = is_last || !stop || !stop();
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
  const auto total = [](const std::vector<double>& of_batches) {
    return std::accumulate(of_batches.begin(), of_batches.end(), 0.0);
  };
  const double all = std::max(1.0, total(preferences_ ? weights : targets));
  result.target_count = static_cast<int64_t>(total(targets));
  result.loss = total(losses) / all;
  for (const double sum : sums) result.numbers.push_back(sum / all);
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
