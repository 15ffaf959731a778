// Dry runs on the phantom GPU of this process, each as if it were the process's first.
#include "play/answer.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <optional>
#include <utility>

#include "arch/read_folder.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/seconds_since.h"
#include "phantom_gpu/gpu.h"
#include "play/dry_run.h"
#include "play/make_plan.h"

namespace fathom::play {

PhantomGpuPlayer::PhantomGpuPlayer(const train::Placement& placement) : placement_(placement) {}

const weights::ModelFolder& PhantomGpuPlayer::folder_of(const std::string& path) {
  if (!folder_ || folder_path_ != path) {
    auto folder = std::make_unique<weights::ModelFolder>(path, /*weights_required=*/false);
    architecture_ = arch::read_architecture(*folder);
    folder_ = std::move(folder);
    folder_path_ = path;
  }
  return *folder_;
}

void PhantomGpuPlayer::start_over() {
  placement_.cuda->start_over();
  placement_.ledger = &placement_.cuda->ledger();
}

plan::PhantomAnswer PhantomGpuPlayer::play(const plan::PhantomQuestion& question) {
  phantom_gpu::pretend(question.memory_bytes, question.taken_bytes, question.placement);
  start_over();
  const config::RunConfig& config = question.config;
  const weights::ModelFolder& folder = folder_of(config.model_name_or_path);
  const arch::Run run = arch::resolve(config, arch::with_added_tokens(architecture_, question.added_tokens));
  plan::PhantomAnswer answer;
  const auto start = std::chrono::steady_clock::now();
  try {
    answer.attention_kernel = attention_kernel(run, placement_.device);
    start_over();  // that allocates to find out
    if (config.memory_budget > 0) placement_.cuda->limit(config.memory_budget);
    const plan::Workload workload = plan::make_workload(run, question.schedule);
    const auto read_peaks = [&] {
      const ledger::CudaDevice::Statistics statistics = placement_.cuda->statistics();
      answer.requested = statistics.peak_requested;
      answer.allocated = statistics.peak_allocated;
      answer.reserved = statistics.peak_reserved;
      placement_.cuda->trace_to({});
    };
    if (!question.trace.empty()) placement_.cuda->trace_to(question.trace);
    const auto group = played_group(config, workload.schedule.rank);
    train::Placement placement = placement_;
    placement.group = group.get();
    if (question.kernels) {
      answer.kernels = list_kernels(run, &folder, workload, placement);
      return answer;
    }
    std::optional<plan::OperatorTimes> times;
    if (!question.operator_times.empty() && question.detail >= plan::Detail::kArithmetic) {
      times = plan::OperatorTimes::from_json(parse_json(question.operator_times, "operator_times"), "operator_times");
    }
    DryRun played = dry_run(run, &folder, workload, placement, read_peaks, question.detail, times ? &*times : nullptr);
    answer.memory = played.memory;
    answer.arithmetic = played.arithmetic;
    answer.steps_played = played.steps_played;
    answer.exact = played.exact;
    answer.timeline = std::move(played.timeline);
  } catch (const c10::OutOfMemoryError& error) {
    answer.out_of_memory = error.what_without_backtrace();
  }
  answer.seconds = seconds_since(start);
  return answer;
}

Json PhantomGpuPlayer::answer(const Json& question) {
  Json answer;
  try {
    answer = to_json(play(plan::question_from_json(question)));
  } catch (const c10::Error& error) {
    answer = {{"error", std::string("LibTorch: ") + error.what_without_backtrace()}};
  } catch (const std::exception& error) {
    answer = {{"error", error.what()}};
  }
  try {
    start_over();
    phantom_gpu::pretend(phantom_gpu::kUnlimitedBytes, 0,
                         0);  // expandable segments of a run out of memory keep their addresses
  } catch (const Error&) {
    clean_ = false;
    answer["last"] = true;
  }
  return answer;
}

}  // namespace fathom::play
