// The shapes that decide, and what the architecture says beside them.
#include "plan/estimate/workload.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/shards.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "quant/fp8.h"
#include "schedule/inputs.h"

namespace fathom::plan {
namespace {

// What is recorded once is replayed in every step (ops/recorded_segments.h).
void refuse_recording(const arch::Run& run) {
  const config::RunConfig& config = run.config;
  const arch::Architecture& architecture = run.architecture;
  if (!config.cuda_graphs) return;
  const auto refuse = [](const char* reason, const char* remedy = "remove cuda_graphs") {
    throw UsageError(std::string("cuda_graphs: true, but ") + reason, remedy);
  };
  if (config.num_processes > 1) refuse("processes exchange gradients while layers run");
  if (architecture.encoder) refuse("the model has an encoder, and layers of decoders alone are recorded");
  if (architecture.experts() != nullptr) refuse("which experts tokens go to is another in every step");
  // LibTorch's own generator goes on with each replay, but cannot be set back while work is recorded.
  if (architecture.dropout > 0) refuse("attention draws once more what it leaves out of its scores");
  const bool draws =
      architecture.inner_dropout > 0 || (config.method == config::Method::kLora && config.lora_dropout > 0);
  if (draws && config.gradient_checkpointing) {
    refuse("checkpoints draw what dropout leaves out once more",
           "remove one of dropout, gradient_checkpointing and cuda_graphs");
  }
}

// The gradient of a parameter that is updated at once waits for nothing.
void refuse_updates_in_backward(const config::RunConfig& config, const arch::Precision& precision) {
  if (!config.optimizer_in_backward) return;
  const auto refuse = [](const char* reason, const char* remedy) {
    throw UsageError(std::string("optimizer_in_backward: true, but ") + reason, remedy);
  };
  if (config.num_processes > 1) {
    refuse("processes add up their gradients before they update",
           "remove it; strategy: fsdp divides gradients among processes");
  }
  if (precision.computed == DType::kF16) {
    refuse("products are in FP16, where a step is skipped if any gradient overflows",
           "remove it, or train in bfloat16 or float32");
  }
}

void refuse_offload(const config::RunConfig& config) {
  if (!offloads(config) || config.num_processes == 1) return;
  throw UsageError(std::string(config.offload_optimizer ? "offload_optimizer" : "offload_weights") +
                       ": true, but the run has several processes",
                   "remove it; strategy: fsdp divides weights and optimizer states among processes");
}

// What aten::_scaled_mm takes (ops/linear/fp8_linear.h).
void refuse_fp8_products(const arch::Run& run) {
  const config::RunConfig& config = run.config;
  if (!config.fp8) return;
  const auto refuse = [](const std::string& reason, const char* remedy = "set fp8: false") {
    throw UsageError("fp8: true, but " + reason, remedy);
  };
  const std::optional<quant::Scheme>& base = run.settings.base_scheme;
  if (base && quant::is_fp8(*base) && !quant::is_fp8_of_rows(*base)) {
    refuse("the base is in " + std::string(quant::name_of(*base)) + ", and a product takes one scale for each row");
  }
  if (config.method == config::Method::kLora && !(base && quant::is_fp8(*base))) {
    refuse("the base is not in FP8, whose codes it multiplies", "set load_in_fp8: true, or fp8: false");
  }
  if (run.precision.computed != DType::kBF16) {
    refuse("products of this run are not in BF16, in which those of FP8 are written", "set bf16: true, or fp8: false");
  }
  const bool full = config.method == config::Method::kFull;
  if (full && !config.cuda_kernels.value_or(false)) {
    refuse("in full training without fathom's CUDA kernels it takes longer, and FP32 copies of weights besides",
           "set cuda_kernels: true, or fp8: false");
  }
  if (run.architecture.experts() != nullptr) refuse("products of experts are not made in FP8");
  for (const arch::ParameterRow& row : run.parameters.rows) {
    const std::vector<int64_t>& sides = row.spec.shape;
    if (row.spec.may_be_coded() && row.of_base() &&
        (sides[0] % quant::kFp8Sides != 0 || sides[1] % quant::kFp8Sides != 0)) {
      refuse(row.spec.name + " is " + std::to_string(sides[0]) + " x " + std::to_string(sides[1]) +
             ", and sides must be multiples of " + std::to_string(quant::kFp8Sides));
    }
    if (full && row.spec.may_be_coded() && sides[1] > quant::kWidestFp8Row) {
      refuse("rows of " + row.spec.name + " are " + std::to_string(sides[1]) +
             " wide, more than the kernel that quantizes them takes, " + std::to_string(quant::kWidestFp8Row));
    }
  }
}

}  // namespace

Workload make_workload(const arch::Run& run, schedule::Schedule schedule) {
  arch::refuse_training_codes(run);
  refuse_recording(run);
  refuse_updates_in_backward(run.config, run.precision);
  refuse_offload(run.config);
  refuse_fp8_products(run);
  Workload workload;
  workload.steps = schedule::maximal_shapes(schedule.steps, schedule::kernel_traits(run.architecture));
  std::vector<schedule::StepShape> single;
  single.reserve(schedule.evaluation.size());
  for (const schedule::BatchShape& batch : schedule.evaluation) single.push_back({batch});
  for (const schedule::StepShape& step : schedule::maximal_shapes(single, schedule::kernel_traits(run.architecture))) {
    workload.evaluations.push_back(step.front());
  }
  workload.schedule = std::move(schedule);
  workload.capacity_tokens = workload.schedule.extent.tokens;
  workload.capacity_source_tokens = workload.schedule.extent.source_tokens;
  workload.shares = config::shard_size(run.config);
  workload.parameters = run.parameters.count();
  workload.trained_parameters = run.parameters.trained_count();
  workload.constants = run.parameters.constant_count();
  workload.base = run.settings.base_scheme;
  workload.quantized_parameters = run.parameters.coded_count();
  return workload;
}

int64_t longest_sequence(const Workload& workload) {
  int64_t longest = 0;
  const auto widen = [&](const schedule::BatchShape& batch) {
    longest = std::max(longest, schedule::longest_sequence(batch));
  };
  for (const schedule::StepShape& step : workload.steps) std::for_each(step.begin(), step.end(), widen);
  std::for_each(workload.evaluations.begin(), workload.evaluations.end(), widen);
  for (const schedule::AnswerShape& answers : workload.schedule.answers) {
    longest = std::max({longest, answers.positions, answers.source_length});
  }
  return longest;
}

}  // namespace fathom::plan
