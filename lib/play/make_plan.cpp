// Plans for the CPU, in this process, and for a GPU, asked of a child process.
#include "play/make_plan.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "arch/attention_by_scores.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/json_value.h"
#include "base/seconds_since.h"
#include "ops/attention/amx_attention.h"
#include "ops/attention/attention.h"
#include "ops/scalar_type.h"
#include "phantom/device.h"
#include "phantom_gpu/gpu.h"
#include "plan/bound.h"
#include "plan/counted.h"
#include "plan/estimate/analytic.h"
#include "plan/host.h"
#include "plan/time/operator_times.h"
#include "play/dry_run.h"
#include "schedule/inputs.h"

namespace fathom::play {
namespace {

using Clock = std::chrono::steady_clock;

void widen(plan::ByteRange& range, int64_t bytes) {
  range.lowest = std::min(range.lowest, bytes);
  range.highest = std::max(range.highest, bytes);
}

// In the first placement.
plan::PhantomQuestion question_of(const Subject& subject, const GpuRoom& room) {
  plan::PhantomQuestion question;
  question.gpu = room.gpu;
  question.memory_bytes = room.gpu.memory_bytes;
  question.taken_bytes = room.taken_bytes;
  question.config = subject.run.config;
  question.added_tokens = subject.run.architecture.added_tokens;
  question.schedule = subject.workload.schedule;
  return question;
}

// The same question in the placements after the first, side by side as far as `ask` can.
std::vector<plan::PhantomAnswer> ask_placements(plan::PhantomQuestion question, int placements, const AskPhantom& ask) {
  std::vector<std::future<plan::PhantomAnswer>> asked;
  for (question.placement = 1; question.placement < static_cast<uint64_t>(placements); ++question.placement) {
    asked.push_back(std::async(std::launch::async, ask, question));
  }
  std::vector<plan::PhantomAnswer> answers;
  answers.reserve(asked.size());
  for (std::future<plan::PhantomAnswer>& answer : asked) answers.push_back(answer.get());
  return answers;
}

// LibTorch holds a request whole against its limit, also where a part of it lies in a granule that is reserved already:
// it refuses at limits that the run would stay within. A granule more (kLargeBuffer in c10/cuda/CUDACachingAllocator)
// makes up for that; the run is given it where its reserved bytes then stay within the budget.
constexpr int64_t kGranuleBytes = 20 * kMiB;

void require_counted(const plan::Plan& plan) {
  if (const std::string why = plan::why_uncounted(plan); !why.empty()) throw Error(why);
}

// Sets the limit of `bytes` and whether the run fits it. Where it does not, the answer is of a GPU without a limit, and
// so is the question afterwards.
plan::PhantomAnswer ask_within_budget(const Subject& subject, plan::PhantomQuestion& question, const AskPhantom& ask,
                                      plan::GpuBytes& bytes) {
  plan::PhantomAnswer answer = ask(question);
  const int64_t budget = subject.run.config.memory_budget;
  bytes.limit = budget;
  // The allocator may reserve more than its limit without an error: it counts what is allocated where segments expand.
  bytes.fits = answer.out_of_memory.empty() && (budget == 0 || answer.reserved <= budget);
  if (bytes.fits) return answer;
  plan::PhantomQuestion unlimited = question;
  unlimited.memory_bytes = phantom_gpu::kUnlimitedBytes;
  unlimited.taken_bytes = 0;
  if (unlimited.detail == plan::Detail::kArithmetic) unlimited.detail = plan::Detail::kBytes;
  unlimited.config.memory_budget = 0;
  answer = ask(unlimited);
  if (!answer.out_of_memory.empty()) throw Error("the run needs more than any GPU can have: " + answer.out_of_memory);
  if (budget > 0 && answer.reserved <= budget) {
    question.config.memory_budget = budget + kGranuleBytes;
    plan::PhantomAnswer wider = ask(question);
    bytes.fits = wider.out_of_memory.empty() && wider.reserved <= budget;
    if (bytes.fits) answer = std::move(wider);
  }
  if (bytes.fits) {
    bytes.limit += kGranuleBytes;
  } else {
    question = unlimited;
  }
  return answer;
}

// By the table of what operators take on the GPU, where there is one.
std::optional<plan::Throughput> measured_throughput(const GpuRoom& room, const plan::StepArithmetic& arithmetic,
                                                    int64_t num_processes) {
  if (room.operator_times.empty()) return std::nullopt;
  const std::string& product = room.gpu.product;
  const std::string origin = "the table of what operators take on " + product;
  const auto times = plan::OperatorTimes::from_json(parse_json(room.operator_times, origin), origin);
  if (times.device() != product) throw Error(origin + " is of another device, " + times.device());
  return plan::throughput_of(arithmetic, times, num_processes);
}

void set_ranges(const plan::PhantomAnswer& answer, plan::GpuBytes& bytes) {
  bytes.requested = answer.requested;
  bytes.allocated = answer.allocated;
  bytes.reserved = answer.reserved;
  bytes.allocated_range = {bytes.allocated, bytes.allocated};
  bytes.reserved_range = {bytes.reserved, bytes.reserved};
  if (answer.exact) return;
  bytes.bound = true;
  const auto bound = [](int64_t played) { return played + std::max(plan::kBoundBytes, played / plan::kBoundPart); };
  bytes.allocated_range.highest = bound(bytes.allocated);
  bytes.reserved_range.highest = bound(bytes.reserved);
}

}  // namespace

std::string attention_kernel(const arch::Run& run, at::Device device) {
  std::string by_scores = "attention by scores, a few queries at a time";
  if (arch::attends_by_scores(run.architecture, /*training=*/false)) return by_scores;
  const at::ScalarType type = ops::scalar_type(run.precision.computed);
  std::string fused;  // of the smallest heads last
  for (const int64_t size : run.architecture.head_dims()) {
    const auto kernel =
        ops::attention_kernel(run.config.attn_implementation, device, type, size, run.architecture.has_sinks());
    const std::string name = footprint::kernel_name(kernel);
    if (fused.empty() || fused.ends_with(name)) {
      fused = name;
    } else {
      fused = name + " of heads of " + std::to_string(size) + ", else " + fused;
    }
  }
  return arch::attends_by_scores(run.architecture, /*training=*/true) ? by_scores + "; in evaluations " + fused : fused;
}

plan::Target cpu_target() {
  plan::Target target;
  target.name = "CPU";
  target.threads = at::get_num_threads();
  target.amx = ops::has_amx_attention(at::kCPU, at::kBFloat16);
  return target;
}

plan::Plan plan_cpu(const Subject& subject, int64_t capacity_bytes, plan::Detail detail) {
  const Clock::time_point start = Clock::now();
  plan::Plan plan;
  plan.target = cpu_target();
  plan.target.capacity_bytes = capacity_bytes;
  plan.target.attention_kernel = attention_kernel(subject.run, phantom::device());
  plan.workload = subject.workload;
  plan.analytic = plan::estimate_analytic(subject.run, plan.target, plan.workload);
  DryRun played = dry_run_cpu(subject.run, &subject.folder, plan.workload, detail);
  plan.dry_run = played.memory;
  plan.timeline = std::move(played.timeline);
  plan.arithmetic = played.arithmetic;
  plan.steps_played = played.steps_played;
  plan.seconds = seconds_since(start);
  require_counted(plan);
  return plan;
}

plan::Plan plan_gpu(const Subject& subject, const GpuRoom& room, const AskPhantom& ask) {
  plan::PhantomQuestion question = question_of(subject, room);
  question.detail = room.detail;
  question.operator_times = room.operator_times;
  plan::GpuBytes bytes;
  plan::PhantomAnswer answer = ask_within_budget(subject, question, ask, bytes);
  plan::Plan plan;
  plan.target = plan::gpu_target(room.gpu, room.gpu.memory_bytes - room.taken_bytes, subject.run.config.memory_budget);
  plan.target.attention_kernel = answer.attention_kernel;
  plan.workload = subject.workload;
  plan.analytic = plan::estimate_analytic(subject.run, plan.target, plan.workload);
  plan.dry_run = answer.memory;
  plan.timeline = std::move(answer.timeline);
  plan.arithmetic = answer.arithmetic;
  plan.offloaded = plan::offloaded_bytes(subject.run);
  plan.throughput = measured_throughput(room, plan.arithmetic, subject.run.config.num_processes);
  plan.steps_played = answer.steps_played;
  plan.seconds = answer.seconds;
  set_ranges(answer, bytes);
  question.detail = plan::Detail::kBytes;
  question.operator_times.clear();
  for (const plan::PhantomAnswer& placed : ask_placements(question, room.placements, ask)) {
    if (!placed.out_of_memory.empty()) {
      bytes.fits = false;
      continue;
    }
    widen(bytes.allocated_range, placed.allocated);
    widen(bytes.reserved_range, placed.reserved);
  }
  bytes.placements = room.placements;
  if (!bytes.fits) bytes.missing_bytes = std::max<int64_t>(1, bytes.reserved_range.lowest - plan.target.capacity_bytes);
  plan.gpu = bytes;
  require_counted(plan);
  return plan;
}

plan::KernelList kernels_on_gpu(const Subject& subject, const GpuRoom& room, const AskPhantom& ask) {
  plan::PhantomQuestion question = question_of(subject, room);
  question.kernels = true;
  question.memory_bytes = phantom_gpu::kUnlimitedBytes;
  question.taken_bytes = 0;
  question.config.memory_budget = 0;
  const plan::PhantomAnswer answer = ask(question);
  if (!answer.kernels) throw Error("the kernels cannot be listed: " + answer.out_of_memory);
  return *answer.kernels;
}

plan::KernelList kernels_on_cpu(const Subject& subject) {
  ledger::Ledger ledger;
  const phantom::LedgerScope scope(ledger);
  const auto group = played_group(subject.run.config, subject.workload.schedule.rank);
  return list_kernels(subject.run, &subject.folder, subject.workload,
                      {phantom::device(), &ledger, nullptr, group.get()});
}

void plan_events(const Subject& subject, const GpuRoom& room, const AskPhantom& ask, const std::string& trace) {
  plan::PhantomQuestion question = question_of(subject, room);
  question.detail = plan::Detail::kEvents;
  question.trace = trace;
  const plan::PhantomAnswer answer = ask(question);
  if (!answer.out_of_memory.empty()) throw Error("the events cannot be planned: " + answer.out_of_memory);
}

}  // namespace fathom::play
