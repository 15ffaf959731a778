// Remembers what was played, since searches come back to it.
#include "app/commands/advise_planner.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <future>
#include <limits>

#include "app/installation.h"
#include "app/machine.h"
#include "app/run/calibrations.h"
#include "app/run/planning.h"
#include "arch/read_folder.h"
#include "base/bytes.h"
#include "config/to_yaml.h"
#include "plan/bound.h"
#include "plan/fit.h"
#include "plan/host.h"
#include "play/dry_run.h"
#include "train/inputs.h"
#include "train/resume.h"
#include "weights/folder.h"

namespace fathom::app {
namespace {

// To read data for every max_length: no example is cut but where the model has no positions for it.
int64_t longest_length(const config::RunConfig& run) {
  const weights::ModelFolder folder(run.model_name_or_path, /*weights_required=*/false);
  return arch::read_architecture(folder).longest_text().value_or(std::numeric_limits<int32_t>::max());
}

}  // namespace

Planner::Planner(const Invocation& invocation, const Session& session, bool varies_length,
                 std::optional<int64_t> host_bytes)
    : invocation_(invocation), varies_length_(varies_length), host_bytes_(host_bytes) {
  config::RunConfig reading = invocation.config;
  if (varies_length) reading.max_length = longest_length(reading);
  inputs_ = train::open_inputs(reading, /*weights_required=*/false);
  run_ = resolved(invocation.config);
  gpu_ = invocation.gpu;
  if (!gpu_ && session.placement.cuda != nullptr) gpu_ = listed_spec_of(*session.placement.cuda);
  if (gpu_) ask_ = ask_phantom_children();
  if (gpu_ && !host_bytes_) {
    constexpr int64_t kUsual = 48 * kGiB;  // of a desktop with 64
    host_bytes_ = invocation.gpu ? std::max(kUsual, 2 * gpu_->memory_bytes) : available_memory_bytes();
  }
}

plan::Question Planner::question(const arch::Run& run, bool careful) {
  plan::Target target = target_of();
  const int64_t capacity = target.capacity_bytes;
  if (careful) target.capacity_bytes -= free_bytes();
  plan::Question question{run, target, {}, {}, {}, {}, {}};
  if (gpu_) question.play_ahead = [this](const auto& runs) { play_ahead(runs); };
  question.workload_of = [this](const arch::Run& tried) { return workload_of(tried); };
  question.prove = [this, careful, capacity](const config::RunConfig& tried) {
    const Played& played = play(tried, capacity);
    const bool fits = played.missing == 0;
    return plan::Proof{fits ? played.need : capacity + played.missing, careful ? played.sure : fits,
                       fits && !played.sure, played.arithmetic, played.throughput};
  };
  if (gpu_) question.host_bytes = host_bytes_;
  if (!gpu_) {
    question.slowdown = slowdown_on_cpu;
  }
  question.throughput = [this](const arch::Run& tried) {
    return gpu_ ? plan::throughput_of(*gpu_, tried) : cpu_throughput(tried, at::get_num_threads());
  };
  return question;
}

int64_t Planner::free_bytes() {
  const plan::Target target = target_of();
  if (target.within_budget) return 0;
  if (!gpu_) return target.capacity_bytes - plan::most_tensors_within(target.capacity_bytes);
  const auto calibration = calibration_of(gpu_->product);
  const auto share = calibration ? plan::overhead_of(*calibration, plan::kernel_settings(run_)) : std::nullopt;
  const int64_t free = share.value_or(plan::kUncertainBytes) + desktop_bytes();
  return free < gpu_->memory_bytes ? free : 0;
}

std::vector<std::string> Planner::enough_for(const config::RunConfig& run, int64_t need) {
  constexpr size_t kMost = 3;
  const arch::Run asked = resolved(run);
  std::vector<config::GpuSpec> larger;
  for (const auto& [name, gpu] : config::load_gpus(gpus_file())) {
    const bool runs = config::is_supported(gpu.compute_capability) && why_not_on(gpu, asked).empty();
    const int64_t others = plan::kUncertainBytes + static_cast<int64_t>(gpu.desktop_bytes);
    if (runs && gpu.memory_bytes >= need + others && name != gpu_->name) larger.push_back(gpu);
  }
  std::sort(larger.begin(), larger.end(), [](const auto& a, const auto& b) { return a.memory_bytes < b.memory_bytes; });
  std::vector<std::string> enough;
  for (auto next = larger.begin(); next != larger.end() && enough.size() < kMost;) {
    std::vector<std::future<Played>> asked;  // no more than are still wanted
    const auto first = next;
    for (; next != larger.end() && asked.size() < kMost - enough.size(); ++next) {
      asked.push_back(std::async(std::launch::async, play_on(*next, run, plan::Detail::kBytes)));
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      const Played played = asked[i].get();
      const config::GpuSpec& gpu = first[static_cast<std::ptrdiff_t>(i)];
      if (played.missing > 0 || !played.sure) continue;
      enough.push_back(gpu.name + " (" + format_bytes(gpu.memory_bytes) + ")");
    }
  }
  return enough;
}

std::string Planner::why_not() const { return gpu_ ? why_not_on(*gpu_, run_) : ""; }

plan::Target Planner::target_of() const {
  const int64_t budget = invocation_.config.memory_budget;
  if (gpu_) return plan::gpu_target(*gpu_, gpu_->memory_bytes, budget);
  plan::Target target = play::cpu_target();
  target.capacity_bytes = budget > 0 ? budget : available_memory_bytes();
  target.within_budget = budget > 0;
  return target;
}

const Planner::Played& Planner::play(const config::RunConfig& run, int64_t capacity) {
  const std::string key = config::to_yaml(run);
  const auto known = played_.find(key);
  if (known != played_.end()) return known->second;
  if (waiting_) waiting_->count();
  if (gpu_) return played_[key] = play_on(*gpu_, run)();
  const arch::Run counted = planned(run);
  // A budget for the CPU may be that of another machine.
  plan::Plan plan = play::plan_cpu(subject_of(counted), capacity, plan::Detail::kArithmetic);
  plan.target.within_budget = run.memory_budget > 0;
  const bool sure = plan::fit_of(plan) == plan::Fit::kFits;
  return played_[key] = {plan::needed_bytes(plan), plan::missing_bytes(plan), sure, plan.arithmetic, plan.throughput};
}

void Planner::play_ahead(const std::vector<config::RunConfig>& runs) {
  std::map<std::string, std::future<Played>> asked;
  for (const config::RunConfig& run : runs) {
    const std::string key = config::to_yaml(run);
    if (played_.contains(key) || asked.contains(key)) continue;
    if (waiting_) waiting_->count();
    asked[key] = std::async(std::launch::async, play_on(*gpu_, run));
  }
  for (auto& [key, played] : asked) played_[key] = played.get();
}

std::function<Planner::Played()> Planner::play_on(const config::GpuSpec& gpu, const config::RunConfig& run,
                                                  plan::Detail detail) {
  const arch::Run counted = planned(run);
  return [this, gpu, detail, counted, workload = planned_workload(counted)] {
    const play::Subject subject{counted, *inputs_.folder, workload};
    const plan::Plan plan = plan_for_gpu(subject, {.gpu = gpu, .detail = detail}, ask_);
    const auto desktop = plan.target.within_budget ? 0 : static_cast<int64_t>(gpu.desktop_bytes);
    const int64_t share = plan.gpu->overhead.value_or(plan::kUncertainBytes);
    const bool sure = plan::fit_of(plan) == plan::Fit::kFits &&
                      (desktop == 0 || plan.gpu->reserved_range.highest + share + desktop <= gpu.memory_bytes);
    return Played{plan::needed_bytes(plan), plan::missing_bytes(plan), sure, plan.arithmetic, plan.throughput};
  };
}

play::Subject Planner::subject_of(const arch::Run& counted) {
  return {counted, *inputs_.folder, planned_workload(counted)};
}

plan::Workload Planner::planned_workload(const arch::Run& run) { return plan::make_workload(run, schedule_of(run)); }

// Without cutting the data for every question where that changes nothing.
plan::Workload Planner::workload_of(const arch::Run& run) {
  if (run.config.eval_strategy != config::Cadence::kSteps) return planned_workload(run);
  return planned_workload(planned(run.config));
}

arch::Run Planner::planned(const config::RunConfig& config) {
  if (config.eval_strategy != config::Cadence::kSteps) return resolved(config);
  return resolved(schedule::without_late_evaluations(config, cut(inputs_.train, config)));
}

const schedule::Schedule& Planner::schedule_of(const arch::Run& run) {
  const config::RunConfig& config = run.config;
  const Shapes key{config.per_device_train_batch_size,
                   config.gradient_accumulation_steps,
                   config.max_length,
                   config.per_device_eval_batch_size,
                   config.eval_strategy,
                   config.num_processes};
  const auto known = schedules_.find(key);
  return known != schedules_.end() ? known->second : schedules_[key] = make_schedule(run);
}

schedule::Schedule Planner::make_schedule(const arch::Run& run) {
  if (!has_data()) {
    return schedule::imagined_schedule({schedule::accumulated(run.config, schedule::largest_batch(run))}, {},
                                       schedule::largest_reference(run));
  }
  return schedule::make_schedule(run, cut(inputs_.train, run.config), cut(inputs_.validation, run.config),
                                 train::start_of(run.config, inputs_, std::nullopt),
                                 schedule::played_on(gpu_.has_value()));
}

data::Dataset Planner::cut(const data::Dataset& dataset, const config::RunConfig& run) const {
  return varies_length_ ? dataset.cut(run.max_length) : dataset;
}

}  // namespace fathom::app
