// Plans for the CPU, in this process, and for a GPU, asked of a child process.
#include "plan/make_plan.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "base/error.h"
#include "config/load.h"
#include "ledger/memory_json.h"
#include "ops/attention.h"
#include "ops/scalar_type.h"
#include "phantom/device.h"
#include "plan/analytic.h"
#include "plan/dry_run.h"
#include "plan/exchange.h"
#include "train/inputs.h"

namespace fathom::plan {
namespace {

using Clock = std::chrono::steady_clock;

Json request_of(const Subject& subject) {
  std::vector<train::StepShape> evaluations;
  for (const train::BatchShape& shape : subject.workload.evaluations) evaluations.push_back({shape});
  return {{"config", config::to_yaml(subject.config)},
          {"steps", to_json(subject.workload.steps)},
          {"evaluations", to_json(evaluations)},
          {"capacity_tokens", subject.workload.capacity_tokens}};
}

void widen(ByteRange& range, int64_t bytes) {
  range.lowest = std::min(range.lowest, bytes);
  range.highest = std::max(range.highest, bytes);
}

}  // namespace

std::string attention_kernel(const config::RunConfig& config, const model::ModelShape& shape, at::Device device) {
  const at::ScalarType type = config.bf16 ? at::kBFloat16 : ops::scalar_type(train::storage_dtype(config, shape));
  return ops::kernel_name(ops::attention_kernel(config.attn_implementation, device, type, shape.head_dim));
}

Plan plan_cpu(const Subject& subject, int64_t capacity_bytes) {
  const Clock::time_point start = Clock::now();
  Plan plan;
  plan.target.name = "CPU";
  plan.target.capacity_bytes = capacity_bytes;
  plan.target.threads = at::get_num_threads();
  plan.target.attention_kernel = attention_kernel(subject.config, subject.shape, phantom::device());
  plan.workload = subject.workload;
  plan.analytic = estimate_analytic(subject.shape, subject.config, plan.target, plan.workload);
  DryRun played = dry_run_cpu(subject.config, subject.shape, &subject.folder, plan.workload);
  plan.dry_run = played.memory;
  plan.timeline = std::move(played.timeline);
  plan.steps_played = played.steps_played;
  plan.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return plan;
}

Plan plan_gpu(const Subject& subject, const config::GpuSpec& gpu, int placements, const AskPhantom& ask) {
  PhantomQuestion question{gpu, false, 0, request_of(subject)};
  Json answer = ask(question);
  GpuBytes bytes;
  bytes.fits = !answer.contains("out_of_memory");
  if (!bytes.fits) {
    question.unlimited = true;
    answer = ask(question);
  }
  Plan plan;
  plan.target.device = config::Device::kCuda;
  plan.target.name = gpu.name;
  plan.target.compute_capability = gpu.compute_capability;
  plan.target.capacity_bytes = gpu.memory_bytes;
  plan.target.attention_kernel = answer.at("attention_kernel").get<std::string>();
  plan.workload = subject.workload;
  plan.analytic = estimate_analytic(subject.shape, subject.config, plan.target, plan.workload);
  plan.dry_run = ledger::memory_from_json(answer.at("memory"));
  plan.steps_played = answer.at("steps_played").get<int64_t>();
  bytes.requested = answer.at("requested").get<int64_t>();
  bytes.allocated = answer.at("allocated").get<int64_t>();
  bytes.reserved = answer.at("reserved").get<int64_t>();
  bytes.allocated_range = {bytes.allocated, bytes.allocated};
  bytes.reserved_range = {bytes.reserved, bytes.reserved};
  std::vector<std::future<Json>> others;
  for (question.placement = 1; question.placement < placements; ++question.placement) {
    others.push_back(std::async(std::launch::async, ask, question));
  }
  for (std::future<Json>& other : others) {
    const Json placed = other.get();
    if (placed.contains("out_of_memory")) {
      bytes.fits = false;
      continue;
    }
    widen(bytes.allocated_range, placed.at("allocated").get<int64_t>());
    widen(bytes.reserved_range, placed.at("reserved").get<int64_t>());
  }
  bytes.placements = placements;
  if (!bytes.fits) bytes.missing_bytes = std::max<int64_t>(1, bytes.reserved_range.lowest - gpu.memory_bytes);
  plan.gpu = bytes;
  plan.seconds = answer.at("seconds").get<double>();
  return plan;
}

Json answer_dry_run(const Json& request, const train::Placement& placement) try {
  const config::RunConfig config = config::parse_config(request.at("config").get<std::string>(), "the plan's request",
                                                        {}, config::Purpose::kEstimate);
  const weights::ModelFolder folder(config.model_name_or_path, false);
  const model::ModelShape shape = model::parse_model_shape(folder.config(), (folder.path() / "config.json").string());
  Workload workload;
  workload.steps = steps_from_json(request.at("steps"));
  for (const train::StepShape& step : steps_from_json(request.at("evaluations")))
    workload.evaluations.push_back(step.at(0));
  workload.capacity_tokens = request.at("capacity_tokens").get<int64_t>();
  Json answer = {{"attention_kernel", attention_kernel(config, shape, placement.device)}};
  placement.cuda->reset_peaks();
  const Clock::time_point start = Clock::now();
  try {
    const DryRun played = dry_run(config, shape, &folder, workload, placement);
    answer["memory"] = ledger::to_json(played.memory);
    answer["steps_played"] = played.steps_played;
    answer["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  } catch (const c10::OutOfMemoryError& error) {
    answer["out_of_memory"] = error.what_without_backtrace();
  }
  const ledger::CudaDevice::Statistics statistics = placement.cuda->statistics();
  answer["requested"] = statistics.peak_requested;
  answer["allocated"] = statistics.peak_allocated;
  answer["reserved"] = statistics.peak_reserved;
  return answer;
} catch (const nlohmann::json::exception& error) {
  throw Error(std::string("the plan's request has another form than expected: ") + error.what());
}

}  // namespace fathom::plan
