// The training step.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <utility>

#include "arch/parameter_table.h"
#include "arch/precision.h"
#include "base/error.h"
#include "base/log.h"
#include "config/precision.h"
#include "config/shards.h"
#include "footprint/moment_storage.h"
#include "ops/autocast.h"
#include "ops/scalar_type.h"
#include "ops/tf32.h"
#include "optim/gradient_norm.h"
#include "plan/shares.h"
#include "schedule/inputs.h"
#include "schedule/step_order.h"
#include "train/finite.h"
#include "train/loss_sum.h"

namespace fathom::train {
model::ModelOptions model_options(const config::RunConfig& config, const arch::Architecture& architecture,
                                  const Placement& placement) {
  model::ModelOptions options;
  options.device = placement.device;
  options.parameters = arch::parameter_settings(architecture, config);
  options.fake_activations = config.qat_activations == config::QatActivations::kInt8;
  options.fp8_products = config.fp8;
  options.attention = config.attn_implementation;
  options.cuda_kernels = config.cuda_kernels.value_or(false);
  options.gradient_checkpointing = config.gradient_checkpointing;
  options.ledger = placement.ledger;
  return options;
}

std::optional<at::ScalarType> autocast_type(const config::RunConfig& config) {
  const std::optional<DType> type = config::autocast_dtype(config);
  return type ? std::optional(ops::scalar_type(*type)) : std::nullopt;
}

namespace {

// Labels what happened since the last call.
memory::Memory label(const Placement& placement) {
  if (placement.cuda != nullptr) placement.cuda->claim_workspaces();
  return placement.ledger->label();
}

// Updates smaller than a weight's last bit would be lost, and a loss scale does not lift them.
void refuse_fp16(const model::Parameter& parameter) {
  if (parameter.tensor.scalar_type() != at::kHalf) return;
  throw UsageError("modules_to_save would train " + parameter.name + " in float16",
                   "set dtype: float32 (with fp16: true products stay in float16) or dtype: bfloat16");
}

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

Evaluator::Evaluator(const config::RunConfig& config, const arch::Architecture& architecture,
                     const model::ModelOptions& options, const BatchCapacity& capacity, const Placement& placement)
    : placement_(placement),
      autocast_(autocast_type(config)),
      loss_chunk_(config.loss_chunk_size),
      model_(architecture, options),
      ring_(capacity,
            {.rows = config.loss_chunk_size > 0,
             .documents = config.packing,
             .padding = architecture.router_aux_loss_coef > 0},
            placement.device, *placement.ledger) {
  ops::use_tf32(config.tf32, placement.device);
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

Trainer::Trainer(const config::RunConfig& config, const arch::Architecture& architecture, const BatchCapacity& capacity,
                 const Placement& placement)
    : config_(config), placement_(placement) {
  label(placement_);
  placement_.ledger->forget();  // what came before belongs to nobody's run
  placement_.ledger->begin_phase(memory::Phase::kLoad);
  model::ModelOptions options = model_options(config, architecture, placement);
  if (!is_alone() && config.strategy == config::Strategy::kFsdp) {
    sharded_ = std::make_unique<dist::ShardedParameters>(*placement_.group, config::shard_size(config),
                                                         *placement_.ledger, config.reshard_after_forward);
    options.units = sharded_.get();
    options.casts = plan::gathered_casts(architecture, config);
  }
  for (const auto& [key, asked] : {std::pair("fp8", config.fp8), std::pair("cuda_graphs", config.cuda_graphs)}) {
    if (!asked || placement_.cuda != nullptr) continue;
    throw UsageError(std::string(key) + " is true, but this run is on the CPU",
                     std::string("set ") + key + ": false or device: cuda");
  }
  if (config.cuda_graphs) {
    placement_.cuda->take_recordable_stream();
    options.records = placement_.cuda;
  }
  if (const auto type = plan::adapter_casts(architecture, config)) options.adapter_casts = ops::scalar_type(*type);
  ops::keep_casts(!holds_shares());  // they would be all weights again
  evaluator_ = std::make_unique<Evaluator>(config, architecture, options, capacity, placement);
  std::vector<optim::OptimizedParameter> optimized;
  const auto hold = [&](const model::Parameter& parameter, int64_t place, int64_t first, int64_t whole) {
    held_.push_back(parameter);
    if (!parameter.trained) return;
    refuse_fp16(parameter);
    trained_.push_back(parameter);
    optimized.push_back({parameter.name, parameter.tensor, parameter.decays, {{place, first, whole}}});
  };
  if (holds_shares()) {
    sharded_->adopt(model().parameters(), plan::first_unit_stays(architecture),
                    [&](int64_t elements) { return footprint::block_of_moments(config, elements); });
    for (const auto& share : sharded_->shares()) hold(share, share.place, share.first, share.whole);
  } else {
    for (const auto& each : model().parameters()) hold(each, std::ssize(trained_), 0, each.tensor.numel());
  }
  if (arch::precision_of(architecture, config).computed == DType::kF16) loss_scale_.emplace();
  optimizer_ = optim::make_optimizer(config, std::move(optimized), placement_.ledger);
  if (holds_shares()) sharded_->adopt_states(optimizer_->state(), optimizer_->state_blocks());
  if (is_alone() || holds_shares()) return;
  std::vector<at::Tensor> tensors;
  for (const model::Parameter& parameter : trained_) tensors.push_back(parameter.tensor);
  buckets_ = std::make_unique<dist::GradientBuckets>(*placement_.group, tensors);
  for (const dist::Group::Sum& sum : buckets_->sums()) {
    placement_.ledger->claim(sum.tensor, memory::Component::kGradients, "a bucket of gradients");
    placement_.ledger->claim(sum.staging, memory::Component::kFunctionality, "gradients of other processes");
  }
}

Trainer::~Trainer() = default;

std::string instead_of_fp16(const config::RunConfig& config) {
  return config.fp16 ? "write bf16: true instead of fp16: true" : "set dtype: bfloat16";
}

checkpoint::NamedTensors Trainer::parameters() const {
  checkpoint::NamedTensors named;
  named.units = sharded_.get();
  for (const model::Parameter& parameter : evaluator_->model().trained_parameters()) {
    named.emplace_back(parameter.name, parameter.tensor);
  }
  return named;
}

checkpoint::NamedTensors Trainer::states() const {
  checkpoint::NamedTensors named = holds_shares() ? sharded_->whole_states() : optimizer_->state();
  named.units = sharded_.get();
  return named;
}

memory::Memory Trainer::loaded() {
  placement_.ledger->end_phase();
  return label(placement_);
}

at::Tensor Trainer::accumulate(const DeviceBatch& batch, double denominator, double router_share, const Round& round) {
  ledger::Ledger& ledger = *placement_.ledger;
  ledger.begin_phase(memory::Phase::kForward);
  if (holds_shares()) sharded_->begin_round(round);
  at::Tensor loss = evaluator_->loss(batch, denominator, loss_scale_ ? loss_scale_->value() : 1, router_share);
  ledger.end_phase();
  ledger.begin_phase(memory::Phase::kBackward);
  ledger.enter("loss");
  torch::autograd::backward({loss}, {});
  if (holds_shares()) sharded_->end_round();
  if (is_alone()) {
    for (const model::Parameter& parameter : trained_) {
      ledger.claim(parameter.tensor.grad(), memory::Component::kGradients, parameter.name);
    }
  }
  loss = loss.detach();
  ledger.end_phase();
  return loss;
}

void Trainer::update(double learning_rate, const std::function<void()>& before_update,
                     const std::function<void()>& read_losses, StepResult& result) {
  std::vector<at::Tensor> gradients;
  for (const model::Parameter& parameter : trained_) gradients.push_back(parameter.tensor.grad());
  std::function<double(double)> of_all;
  if (holds_shares()) {
    of_all = [this](double share) { return sharded_->sum(share); };
  }
  const optim::GradientNorm gradient_norm = optim::gradient_norm(
      gradients, config_.max_grad_norm, loss_scale_ ? std::optional(loss_scale_->value()) : std::nullopt, of_all);
  read_losses();  // a GPU has been given the norm before anybody waits for it
  result.gradient_norm = gradient_norm.total.item<double>();
  if (!is_alone()) placement_.group->check();
  result.skipped = !may_update(result);
  if (!result.skipped) {
    if (before_update) before_update();
    optimizer_->step(learning_rate, gradient_norm.factor);
  }
  gradients.clear();
  if (holds_shares()) return sharded_->clear_gradients();
  if (!is_alone()) return buckets_->clear();
  for (const model::Parameter& parameter : trained_) parameter.tensor.mutable_grad().reset();
}

// What result and micro_batches say of this process becomes what they are of all.
void Trainer::count_for_all(StepResult& result, int64_t& micro_batches) const {
  int64_t* const counts[] = {&result.target_count, &result.token_count, &micro_batches};
  std::vector<double> numbers;
  for (const int64_t* count : counts) numbers.push_back(static_cast<double>(*count));
  placement_.group->sum(numbers);
  for (size_t i = 0; i < numbers.size(); ++i) *counts[i] = static_cast<int64_t>(numbers[i]);
}

// Adapts the loss scale. Where that cannot help, what is not finite ends the run.
bool Trainer::may_update(const StepResult& result) {
  const bool finite = std::isfinite(result.loss) && std::isfinite(result.gradient_norm);
  if (!finite && !(loss_scale_ && loss_scale_->can_back_off())) fail_not_finite(result.loss);
  if (loss_scale_ && finite) loss_scale_->count_good();
  if (!finite) loss_scale_->count_skipped(std::isfinite(result.loss));
  return finite;
}

StepResult Trainer::step(std::span<const data::Batch> micro_batches, double learning_rate,
                         const std::function<void()>& before_update, int64_t of_all) {
  StepResult result;
  for (const data::Batch& batch : micro_batches) {
    result.target_count += batch.target_count;
    result.token_count += batch.token_count;
  }
  auto micro_batches_of_all = static_cast<int64_t>(micro_batches.size());
  if (!is_alone()) count_for_all(result, micro_batches_of_all);
  if (of_all > 0) micro_batches_of_all = of_all;
  // Of the n-th micro-batch of each.
  const auto round_of = [&](int64_t n) {
    const int64_t left = micro_batches_of_all - n * placement_.processes();
    return Round{std::clamp<int64_t>(left, 0, placement_.processes()), left <= placement_.processes()};
  };
  model().set_training(true);
  const double router_share = 1 / static_cast<double>(micro_batches_of_all);
  const int64_t most = std::max(config_.gradient_accumulation_steps, std::ssize(micro_batches));
  LossSum losses(placement_.group, most), of_routers(placement_.group, most);
  DeviceBatch next = micro_batches.empty() ? DeviceBatch() : evaluator_->put(micro_batches.front());
  if (micro_batches.empty() && buckets_) buckets_->expect_last();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const DeviceBatch batch = std::exchange(next, DeviceBatch());
    if (i + 1 < micro_batches.size()) next = evaluator_->put(micro_batches[i + 1]);
    if (buckets_ && i + 1 == micro_batches.size()) buckets_->expect_last();
    placement_.ledger->repeat(data::shape_hash(micro_batches[i]), [&] {
      losses.add(accumulate(batch, static_cast<double>(std::max<int64_t>(1, result.target_count)), router_share,
                            round_of(static_cast<int64_t>(i))));
      if (const at::Tensor of_router = model().take_router_loss(); of_router.defined()) {
        of_routers.add(of_router, router_share);
      }
    });
  }
  if (buckets_) buckets_->finish();
  if (const Round left = round_of(std::ssize(micro_batches)); holds_shares() && left.contributors > 0) {
    placement_.ledger->begin_phase(memory::Phase::kForward);
    sharded_->idle_round(left);
    placement_.ledger->end_phase();
  }
  placement_.ledger->begin_phase(memory::Phase::kOptimizerStep);
  const auto read_losses = [&] {
    result.loss = losses.take_total(micro_batches_of_all);
    if (model().architecture().router_aux_loss_coef == 0) return;
    result.router_loss = of_routers.take_total(micro_batches_of_all);
  };
  update(learning_rate, before_update, read_losses, result);
  placement_.ledger->end_phase();
  result.memory = label(placement_);
  return result;
}

memory::Memory Trainer::saving(const std::function<void()>& save) {
  if (config_.cuda_graphs) placement_.cuda->synchronize();  // threads that write have other streams than recorded work
  placement_.ledger->begin_phase(memory::Phase::kSave);
  save();
  placement_.ledger->end_phase();
  return label(placement_);
}

std::string Trainer::remedy_for_not_finite() const {
  const arch::Precision precision = arch::precision_of(evaluator_->model().architecture(), config_);
  std::string remedy =
      config_.max_grad_norm > 0 ? "lower learning_rate or max_grad_norm" : "lower learning_rate, or set max_grad_norm";
  if (precision.stored != DType::kF32 || precision.computed != DType::kF32) remedy += ", or train in float32";
  remedy += "; checkpoints of before stay as they are";
  if (!loss_scale_ || loss_scale_->can_back_off()) return remedy;
  return "FP16 ends at 65504, and the loss scale is down to 1: " + instead_of_fp16(config_) + ", or " + remedy;
}

void Trainer::require_finite_weights(const std::string& when) const {
  for (const model::Parameter& parameter : held_) {
    if (parameter.tensor.element_size() == 1) continue;  // codes: their scales tell
    if (is_finite(parameter.tensor)) continue;
    throw Error(when + "the weights of " + parameter.name + " are not finite",
                parameter.trained ? remedy_for_not_finite() : "they came so from the base's files; get those again");
  }
}

void Trainer::fail_not_finite(double loss) const {
  require_finite_weights();
  const std::string remedy = remedy_for_not_finite();
  if (!std::isfinite(loss)) throw Error("the loss is not finite although all weights here are", remedy);
  for (const model::Parameter& parameter : trained_) {
    if (!is_finite(parameter.tensor.grad()))
      throw Error("the gradient of " + parameter.name + " is not finite", remedy);
  }
  throw Error("the gradient norm is not finite although all gradients here are", remedy);
}

}  // namespace fathom::train
