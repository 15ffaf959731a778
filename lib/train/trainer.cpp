// The training step.
#include "train/trainer.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "config/shards.h"
#include "footprint/moment_storage.h"
#include "ops/autocast.h"
#include "ops/scalar_type.h"
#include "plan/estimate/shares.h"
#include "schedule/inputs.h"
#include "train/finite.h"
#include "train/loss_sum.h"
#include "train/updates_in_backward.h"

namespace fathom::train {
namespace {

// What a step's micro-batches of this process add up to.
class StepSums {
 public:
  StepSums(dist::Group* group, int64_t most) : losses_(group, most), of_routers_(group, most) {}
  void add(const at::Tensor& loss) { losses_.add(loss); }
  // What the micro-batch made beside its loss; undefined: nothing. share: of it in the mean of all.
  void add_beside(const at::Tensor& of_router_loss, double share, const at::Tensor& numbers_K) {
    if (of_router_loss.defined()) of_routers_.add(of_router_loss, share);
    if (numbers_K.defined()) numbers_K_ = numbers_K_.defined() ? numbers_K_.add_(numbers_K) : numbers_K;
  }
  // Over all processes, but the objective's numbers, which are of this one. Once.
  void take(int64_t micro_batches_of_all, bool has_router_loss, StepResult& result) {
    result.loss = losses_.take_total(micro_batches_of_all);
    if (const at::Tensor sums_K = std::exchange(numbers_K_, at::Tensor()); sums_K.defined()) {
      const at::Tensor here_K = sums_K.cpu();
      for (int64_t i = 0; i < here_K.numel(); ++i) {
        result.numbers.push_back(here_K.const_data_ptr<float>()[i] / static_cast<double>(result.counted));
      }
    }
    if (has_router_loss) result.router_loss = of_routers_.take_total(micro_batches_of_all);
  }

 private:
  LossSum losses_, of_routers_;
  at::Tensor numbers_K_;
};

// Updates smaller than a weight's last bit would be lost, and a loss scale does not lift them.
void refuse_fp16(const model::Parameter& parameter) {
  if (parameter.tensor.scalar_type() != at::kHalf) return;
  throw UsageError("modules_to_save would train " + parameter.name + " in float16",
                   "set dtype: float32 (with fp16: true products stay in float16) or dtype: bfloat16");
}

void refuse_what_gpus_have(const config::RunConfig& config, const Placement& placement) {
  for (const auto& [key, asked] : {std::pair("fp8", config.fp8), std::pair("cuda_graphs", config.cuda_graphs),
                                   std::pair("offload_optimizer", config.offload_optimizer),
                                   std::pair("offload_weights", config.offload_weights)}) {
    if (!asked || placement.cuda != nullptr) continue;
    throw UsageError(std::string(key) + " is true, but this run is on the CPU",
                     std::string("set ") + key + ": false or device: cuda");
  }
}

}  // namespace

Trainer::Trainer(const arch::Run& run, const BatchCapacity& capacity, const Placement& placement)
    : config_(run.config), precision_(run.precision), placement_(placement), clock_(placement.device) {
  const config::RunConfig& config = config_;
  label(placement_);
  placement_.ledger->forget();  // what came before belongs to nobody's run
  placement_.ledger->begin_phase(memory::Phase::kLoad);
  model::ModelOptions options = model_options(run, placement);
  if (!is_alone() && config.strategy == config::Strategy::kFsdp) {
    sharded_ = std::make_unique<dist::ShardedParameters>(*placement_.group, config::shard_size(config),
                                                         *placement_.ledger, config.reshard_after_forward);
    options.units = sharded_.get();
    options.casts = run.gathered_casts;
  }
  refuse_what_gpus_have(config, placement_);
  if (config.cuda_graphs) {
    placement_.cuda->take_recordable_stream();
    options.records = placement_.cuda;
  }
  const auto host_memory = [cuda = placement_.cuda](int64_t bytes) { return cuda->host_memory(bytes); };
  if (config.offload_weights) {
    offloaded_ = std::make_unique<model::OffloadedLayers>(placement_.device, host_memory, *placement_.ledger);
    options.units = offloaded_.get();
  }
  if (const auto type = run.adapter_casts) options.adapter_casts = ops::scalar_type(*type);
  ops::keep_casts(!holds_shares());  // they would be all weights again
  evaluator_ = std::make_unique<Evaluator>(run, options, capacity, placement);
  if (offloaded_) offloaded_->adopt(model().parameters());
  std::vector<optim::OptimizedParameter> optimized;
  const auto hold = [&](const model::Parameter& parameter, int64_t place, int64_t first, int64_t whole) {
    held_.push_back(parameter);
    if (!parameter.trained) return;
    refuse_fp16(parameter);
    trained_.push_back(parameter);
    optimized.push_back({parameter.name, parameter.tensor, parameter.decays, {{place, first, whole}}});
  };
  if (holds_shares()) {
    sharded_->adopt(model().parameters(), plan::first_unit_stays(run.architecture),
                    [&](int64_t elements) { return footprint::block_of_moments(config, elements); });
    for (const auto& share : sharded_->shares()) hold(share, share.place, share.first, share.whole);
  } else {
    for (const auto& each : model().parameters()) hold(each, std::ssize(trained_), 0, each.tensor.numel());
  }
  if (precision_.computed == DType::kF16) loss_scale_.emplace();
  optim::StatesHome home(placement_.ledger);
  if (config.offload_optimizer) home.host_memory = host_memory;
  optimizer_ = optim::make_optimizer(config, optimized, home);
  if (holds_shares()) sharded_->adopt_states(optimizer_->state(), optimizer_->state_blocks());
  gradients_ = make_gradient_keeper();
}

std::unique_ptr<GradientKeeper> Trainer::make_gradient_keeper() {
  ledger::Ledger& ledger = *placement_.ledger;
  if (config_.optimizer_in_backward) return std::make_unique<UpdatesInBackward>(*optimizer_, trained_, ledger);
  if (holds_shares()) return gradients_in_shares(trained_, *sharded_);
  if (!is_alone()) return gradients_in_buckets(trained_, *placement_.group, ledger);
  return own_gradients(trained_, ledger);
}

Trainer::~Trainer() = default;

std::string instead_of_fp16(const config::RunConfig& config) {
  return config.fp16 ? "write bf16: true instead of fp16: true" : "set dtype: bfloat16";
}

checkpoint::NamedTensors Trainer::parameters() const {
  checkpoint::NamedTensors named;
  named.units = sharded_.get();
  const model::Decoder& model = evaluator_->model();
  const bool whole = config_.method == config::Method::kFull;  // its constants too
  for (const model::Parameter& each : whole ? model.parameters() : model.trained_parameters()) {
    named.emplace_back(each.name, each.tensor);
  }
  return named;
}

checkpoint::NamedTensors Trainer::states() const {
  checkpoint::NamedTensors named = holds_shares() ? sharded_->whole_states() : optimizer_->state();
  named.units = sharded_.get();
  return named;
}

int64_t Trainer::host_bytes() const { return optimizer_->host_bytes() + (offloaded_ ? offloaded_->host_bytes() : 0); }

memory::Memory Trainer::loaded() {
  placement_.ledger->end_phase();
  return label(placement_);
}

plan::StepParts<double> Trainer::phase_seconds() {
  if (placement_.cuda != nullptr) placement_.cuda->synchronize();
  return clock_.seconds();
}

void Trainer::begin(memory::Phase phase) {
  placement_.ledger->begin_phase(phase);
  clock_.begin(phase);
}

void Trainer::end() {
  clock_.end();
  placement_.ledger->end_phase();
}

at::Tensor Trainer::accumulate(const DeviceBatch& batch, double denominator, double router_share,
                               const GradientKeeper::Round& round) {
  ledger::Ledger& ledger = *placement_.ledger;
  claim_workspaces(placement_);
  begin(memory::Phase::kForward);
  gradients_->begin_passes(round);
  at::Tensor loss = evaluator_->loss(batch, denominator, loss_scale_ ? loss_scale_->value() : 1, router_share);
  end();
  begin(memory::Phase::kBackward);
  ledger.enter("loss");
  torch::autograd::backward({loss}, {});
  gradients_->end_passes();
  loss = loss.detach();
  end();
  return loss;
}

void Trainer::update(double learning_rate, const std::function<void()>& before_update,
                     const std::function<void()>& read_losses, StepResult& result) {
  const std::optional<double> loss_scale = loss_scale_ ? std::optional(loss_scale_->value()) : std::nullopt;
  const optim::GradientNorm norm = gradients_->norm(config_.max_grad_norm, loss_scale);
  read_losses();  // a GPU has been given the norm before anybody waits for it
  result.gradient_norm = norm.total.item<double>();
  if (!is_alone()) placement_.group->check();
  result.skipped = !may_update(result);
  if (!result.skipped && !gradients_->updates_in_backward()) {
    if (before_update) before_update();
    optimizer_->step(learning_rate, norm.factor);
  }
  gradients_->clear();
}

// What result and micro_batches say of this process becomes what they are of all.
void Trainer::count_for_all(StepResult& result, int64_t& micro_batches) const {
  int64_t* const counts[] = {&result.counted, &result.token_count, &micro_batches};
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
  clock_.begin_step();
  for (const data::Batch& batch : micro_batches) {
    result.counted += evaluator_->counted(batch);
    result.token_count += batch.token_count;
  }
  auto micro_batches_of_all = static_cast<int64_t>(micro_batches.size());
  if (!is_alone()) count_for_all(result, micro_batches_of_all);
  if (of_all > 0) micro_batches_of_all = of_all;
  // Of the n-th micro-batch of each.
  const auto round_of = [&](int64_t n) {
    const int64_t left = micro_batches_of_all - n * placement_.processes();
    return GradientKeeper::Round{std::clamp<int64_t>(left, 0, placement_.processes()), left <= placement_.processes()};
  };
  model().set_training(true);
  if (gradients_->updates_in_backward() && before_update) before_update();
  gradients_->begin_step(learning_rate);
  const double router_share = 1 / static_cast<double>(micro_batches_of_all);
  StepSums sums(placement_.group, std::max(config_.gradient_accumulation_steps, std::ssize(micro_batches)));
  DeviceBatch next = micro_batches.empty() ? DeviceBatch() : evaluator_->put(micro_batches.front());
  if (micro_batches.empty()) gradients_->expect_last();
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const DeviceBatch batch = std::exchange(next, DeviceBatch());
    if (i + 1 < micro_batches.size()) next = evaluator_->put(micro_batches[i + 1]);
    if (i + 1 == micro_batches.size()) gradients_->expect_last();
    placement_.ledger->repeat(data::shape_hash(micro_batches[i]), [&] {
      sums.add(accumulate(batch, static_cast<double>(std::max<int64_t>(1, result.counted)), router_share,
                          round_of(static_cast<int64_t>(i))));
      sums.add_beside(model().take_router_loss(), router_share, evaluator_->take_numbers());
    });
  }
  gradients_->finish();
  const GradientKeeper::Round left = round_of(std::ssize(micro_batches));
  if (left.contributors > 0 && gradients_->takes_every_round()) {
    begin(memory::Phase::kForward);
    gradients_->idle_round(left);
    end();
  }
  begin(memory::Phase::kOptimizerStep);
  const auto read_losses = [&] {
    sums.take(micro_batches_of_all, model().architecture().router_aux_loss_coef != 0, result);
  };
  update(learning_rate, before_update, read_losses, result);
  end();
  result.memory = label(placement_);
  return result;
}

memory::Memory Trainer::saving(const std::function<void()>& save) {
  if (config_.cuda_graphs) placement_.cuda->synchronize();  // threads that write have other streams than recorded work
  optimizer_->wait();
  placement_.ledger->begin_phase(memory::Phase::kSave);
  save();
  placement_.ledger->end_phase();
  return label(placement_);
}

std::string Trainer::remedy_for_not_finite() const {
  const char* limit = config_.max_grad_norm > 0 ? " or max_grad_norm"
                      : gradients_->updates_in_backward()
                          ? ", or set max_grad_norm in the place of optimizer_in_backward"
                          : ", or set max_grad_norm";
  std::string remedy = std::string("lower learning_rate") + limit;
  if (precision_.stored != DType::kF32 || precision_.computed != DType::kF32) remedy += ", or train in float32";
  remedy += "; checkpoints of before stay as they are";
  if (!loss_scale_ || loss_scale_->can_back_off()) return remedy;
  return "FP16 ends at 65504, and the loss scale is down to 1: " + instead_of_fp16(config_) + ", or " + remedy;
}

const model::Parameter* Trainer::first_not_finite(bool trained_too) const {
  const model::Parameter* first = nullptr;
  for (const model::Parameter& parameter : held_) {
    if (first != nullptr || (parameter.trained && !trained_too)) continue;
    if (parameter.tensor.element_size() == 1) continue;  // codes: their scales tell
    if (offloaded_) offloaded_->open(parameter.tensor);
    if (!is_finite(parameter.tensor)) first = &parameter;
  }
  if (offloaded_) offloaded_->close();
  return first;
}

void Trainer::require_finite_weights(const std::string& when, bool trained_too) const {
  const model::Parameter* parameter = first_not_finite(trained_too);
  if (parameter == nullptr) return;
  throw Error(when + "the weights of " + parameter->name + " are not finite",
              parameter->trained ? remedy_for_not_finite() : "they came so from the base's files; get those again");
}

void Trainer::fail_not_finite(double loss) const {
  const std::string remedy = remedy_for_not_finite();
  const bool updated = gradients_->updates_in_backward();  // by what is not finite
  require_finite_weights("", /*trained_too=*/!updated);
  if (!std::isfinite(loss)) {
    throw Error(std::string("the loss is not finite") + (updated ? "" : " although all weights here are"), remedy);
  }
  const std::string first = gradients_->first_not_finite();
  if (!first.empty()) throw Error("the gradient of " + first + " is not finite", remedy);
  throw Error("the gradient norm is not finite although all gradients here are", remedy);
}

}  // namespace fathom::train
