// Plans for the commands.
#include "app/run/planning.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "app/installation.h"
#include "app/machine.h"
#include "app/run/calibrations.h"
#include "app/run/phantom_children.h"
#include "app/waiting.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/log.h"
#include "config/precision.h"
#include "footprint/cudnn_workspace.h"
#include "ops/linear/widened_product.h"
#include "ops/scalar_type.h"
#include "plan/advice/techniques.h"
#include "plan/bound.h"
#include "play/dry_run.h"
#include "schedule/step_order.h"

namespace fathom::app {
namespace {

// How many times as long as in FP32 what is done in 16 bits takes on a CPU without instructions for them: products of
// matrices, which go through FP32, and attention, by runs of a Llama of 125M parameters.
constexpr plan::Slowdown kWidening{.matrix = 1.1, .attention = 16};

// What nothing reads during the run: of a split, training data are held back for nothing.
void warn_of_unread_validation(const config::RunConfig& config, const schedule::RunInputs& inputs) {
  if (inputs.validation.empty() || config.eval_strategy != config::Cadence::kNo || config.eval_on_start) return;
  const int64_t held_back = inputs.validation.size(), all = held_back + inputs.train.size();
  const std::string what = config.validation_split > 0
                               ? "validation_split holds back " + format_count(held_back) + " of " + format_count(all) +
                                     " examples, but the run is not evaluated"
                               : "the run is not evaluated on its validation_file";
  log_warning(what + ": set eval_strategy: epoch or steps, or eval_on_start: true");
}

}  // namespace

play::AskPhantom ask_phantom_children() {
  // A second one halves the time of a plan with many placements; each takes a core and about 300 MB while it lives.
  constexpr size_t kChildren = 2;
  const auto children = std::make_shared<PhantomChildren>(kChildren);
  return [children](const plan::PhantomQuestion& question) { return children->ask(question); };
}

std::string lost_updates(const arch::Run& run) {
  const config::RunConfig& config = run.config;
  const bool saves_modules = config.method == config::Method::kLora && !config.modules_to_save.empty();
  if (saves_modules && run.precision.stored == DType::kBF16) {
    return "what modules_to_save trains lies in BF16 and is rounded to nearest, which loses most updates at usual "
           "learning rates (docs/optimizers.md): set dtype: float32";
  }
  if (!config::rounds_weights_to_nearest(config)) return "";
  return "weights in BF16 that are rounded to nearest lose most updates at usual learning rates, and the run may "
         "hardly learn (docs/optimizers.md): set master_weights: stochastic, which takes no more memory, or fp32" +
         std::string(config::row_of(config.optim).is_adamw ? "" : ", with optim: adamw or adamw_8bit");
}

void warn_of_lost_updates(const arch::Run& run) {
  if (const std::string lost = lost_updates(run); !lost.empty()) log_warning(lost);
}

void tell_of_updates(const arch::Run& run) {
  warn_of_lost_updates(run);
  if (!run.config.optimizer_in_backward) return;
  log_info("max_grad_norm is 0: with optimizer_in_backward no gradient is left to scale once the norm of all is known");
}

std::string why_not_on(const config::GpuSpec& gpu, const arch::Run& run) {
  const config::RunConfig& config = run.config;
  if (config.attn_implementation == config::Attention::kCudnn) {
    const std::string remedy = "; set attn_implementation: flash";
    if (gpu.compute_capability != "9.0") {
      return gpu.name + " has compute capability " + gpu.compute_capability +
             ": what cuDNN's attention takes is known of 9.0 alone" + remedy;
    }
    if (run.architecture.has_sinks()) {
      return std::string("attn_implementation: cudnn ") + footprint::kCudnnHasNoSinks + remedy;
    }
    const std::vector<int64_t> heads = run.architecture.head_dims();
    if (!std::ranges::all_of(
            heads, [&](int64_t size) { return footprint::knows_cudnn(size_of(run.precision.computed), size); })) {
      return std::string("attn_implementation: cudnn ") + footprint::kCudnnKnows + ", as this run does not" + remedy;
    }
  }
  if (config.fp8 && !config::has_fp8(gpu.compute_capability)) {
    return gpu.name + " (compute capability " + gpu.compute_capability +
           ") does not multiply in FP8, as this run would; set fp8: false";
  }
  if (config.fp8 && config.cuda_graphs && gpu.compute_capability == "8.9") {
    return gpu.name + ": products in FP8 cannot be recorded on compute capability 8.9; set cuda_graphs: false";
  }
  const bool in_bf16 = run.precision.computed == DType::kBF16;
  if (!in_bf16 || config::has_bf16(gpu.compute_capability)) return "";
  return gpu.name + " (compute capability " + gpu.compute_capability +
         ") does not multiply in BF16, as this run would; set fp16: true" +
         (config.bf16 || config.dtype == DType::kBF16 ? " in place of bf16 and dtype: bfloat16" : "");
}

plan::Communicators communicators_on(const config::GpuSpec& gpu, const config::RunConfig& config) {
  const char* most = std::getenv("NCCL_MAX_P2P_NCHANNELS");
  return plan::communicators_of(config, gpu, most != nullptr ? std::atoll(most) : 0);
}

play::GpuRoom beside_communicators(play::GpuRoom room, const config::RunConfig& config) {
  room.taken_bytes = std::min(room.gpu.memory_bytes, room.taken_bytes + communicators_on(room.gpu, config).bytes());
  return room;
}

plan::Plan plan_for_gpu(const play::Subject& subject, play::GpuRoom room, const play::AskPhantom& ask) {
  const std::string why = why_not_on(room.gpu, subject.run);
  if (!why.empty()) throw UsageError(why);
  const config::RunConfig& config = subject.run.config;
  if (!config.tf32 && room.detail >= plan::Detail::kArithmetic)
    room.operator_times = operator_times_of(room.gpu.product);
  plan::Plan plan = play::plan_gpu(subject, beside_communicators(room, config), ask);
  if (const auto calibration = calibration_of(room.gpu.product)) {
    plan.gpu->overhead = plan::overhead_of(*calibration, plan::kernel_settings(subject.run));
  }
  return plan;
}

plan::Plan plan_for_cpu(const play::Subject& subject, int64_t processes_here) {
  plan::Plan plan = play::plan_cpu(subject, available_memory_bytes() / processes_here);
  plan::bound_by_budget(plan.target, subject.run.config.memory_budget);
  return plan;
}

arch::Run planned_run(const arch::Run& run, const data::Dataset& dataset) {
  const config::RunConfig planned = schedule::without_late_evaluations(run.config, dataset);
  if (planned.eval_strategy == run.config.eval_strategy) return run;
  log_warning("the run ends before step " + std::to_string(schedule::evaluation_steps(run.config)) +
              ", after which it would be evaluated for the first time: lower eval_steps, or set eval_strategy: epoch");
  return arch::resolve(planned, run.architecture);
}

plan::Slowdown slowdown_on_cpu(const arch::Run& run) {
  return ops::widens_products(ops::scalar_type(run.precision.computed)) ? kWidening : plan::Slowdown{};
}

void warn_of_widening(const arch::Run& run) {
  const DType type = run.precision.computed;
  if (!ops::widens_products(ops::scalar_type(type))) return;
  log_warning(
      std::string("this CPU has no instructions for products in ") + (type == DType::kF16 ? "FP16" : "BF16") +
      ", which go through FP32: 16 bits save memory here, not time (faster: dtype: float32, without bf16 and fp16)");
}

arch::Run planned_run(const config::RunConfig& config, const schedule::RunInputs& inputs, const Session& session) {
  const arch::Run run = arch::resolve(config, inputs.architecture);
  warn_of_unread_validation(config, inputs);
  tell_of_updates(run);
  if (session.placement.cuda == nullptr) warn_of_widening(run);
  return planned_run(run, inputs.train);
}

plan::Plan plan_of(const arch::Run& planned, const schedule::RunInputs& inputs, const schedule::Start& start,
                   const Session& session, const Invocation& invocation) {
  const play::Subject subject{
      planned, *inputs.folder,
      plan::make_workload(planned, schedule::make_schedule(planned, inputs.train, inputs.validation, start,
                                                           schedule::played_on(session.placement.cuda != nullptr),
                                                           session.placement.rank()))};
  if (session.placement.cuda == nullptr) return plan_for_cpu(subject, session.processes_here);
  const Waiting waiting("planning");
  const OwnGpu own = own_gpu(session, invocation);
  const play::GpuRoom room{.gpu = own.gpu, .taken_bytes = own.taken_bytes};
  plan::Plan plan = plan_for_gpu(subject, room);
  plan.target.phantom = session.phantom;
  return plan;
}

OwnGpu own_gpu(const Session& session, const Invocation& invocation) {
  config::GpuSpec gpu = session.phantom ? *invocation.phantom_gpu : spec_of(*session.placement.cuda);
  gpu.memory_bytes = session.placement.cuda->total_bytes();
  if (!session.phantom) {
    gpu.link_bytes_per_second = listed_spec_of(*session.placement.cuda).link_bytes_per_second;
    gpu.gpus_per_node = static_cast<double>(session.processes_here);
  }
  // What NCCL has taken already is counted with the rest that it will take.
  return {gpu, gpu.memory_bytes - session.placement.cuda->free_bytes() - session.taken_by_nccl};
}

void refuse_what_cannot_fit(const plan::Plan& plan, const arch::Run& run, bool force) {
  if (force || plan::missing_bytes(plan) == 0) return;
  const auto gpus = config::load_gpus(gpus_file());
  const auto listed = std::find_if(gpus.begin(), gpus.end(), [&](const auto& each) {
    return plan.gpu && (each.first == plan.target.name || each.second.product == plan.target.name);
  });
  const auto throughput = [&](const arch::Run& changed) {
    return listed == gpus.end() ? std::nullopt : plan::throughput_of(listed->second, changed);
  };
  throw Error(
      plan::describe_misfit(plan, run, throughput) +
      "\n`fathom advise` finds the largest batch, length or rank that fits, and the fastest settings; --force runs "
      "it anyway");
}

void refuse_what_the_host_cannot_hold(const plan::Plan& plan, bool force) {
  const int64_t available = available_memory_bytes();
  if (force || plan.offloaded <= available) return;
  throw Error("the run puts " + format_bytes(plan.offloaded) + " into the host's memory for the GPU, and " +
                  format_bytes(available) + " are available",
              "keep them in fewer bits (optim: adamw_8bit; load_in_4bit: true), or set offload_optimizer: false and "
              "offload_weights: false; --force runs it anyway");
}

}  // namespace fathom::app
