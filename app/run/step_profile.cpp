// Starts and stops LibTorch's profiler (kineto) between steps.
#include "app/run/step_profile.h"

#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/writable.h"

namespace fathom::app {
namespace {

namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

constexpr int64_t kWarmUp = 2;  // steps that take memory and load code
constexpr int64_t kSteps = 3;

// Ends the process before what LibTorch and CUDA's runtime have registered for its end: the runtime gives its context
// back after kineto is gone, which CUPTI then calls (LibTorch 2.11). What was registered last is called first.
void end_before_kineto() {
  static const int registered = ::on_exit(
      [](int status, void* /*unused*/) {
        std::fflush(nullptr);
        ::_exit(status);
      },
      nullptr);
  static_cast<void>(registered);
}

}  // namespace

StepProfile::StepProfile(std::filesystem::path file, bool kernels) : file_(std::move(file)), kernels_(kernels) {
  if (!file_.empty() && std::filesystem::exists(file_) && !std::filesystem::is_regular_file(file_)) {
    throw UsageError("--profile names " + file_.string() + ", which is not a file", "name one that may be replaced");
  }
  if (!file_.empty()) require_writable(file_);
}

StepProfile::~StepProfile() {
  if (active_) profiler::disableProfiler();
}

void StepProfile::start() {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  // Operators of the host would slow a GPU's launches down, which are what the trace is to show.
  const std::set<ActivityType> activities{kernels_ ? ActivityType::CUDA : ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities, {at::RecordScope::FUNCTION});
  if (kernels_) end_before_kineto();
  active_ = true;
}

void StepProfile::finish() {
  active_ = false;
  const auto result = profiler::disableProfiler();
  std::error_code absent;
  std::filesystem::remove(file_, absent);
  result->save(file_.string());
  if (!std::filesystem::exists(file_, absent)) {
    failure_ = "the profile could not be written to " + file_.string();
    log_error(failure_ + "; the run goes on");
    return;
  }
  log_info("profiled " + std::to_string(profiled_) + " steps: " + file_.string() +
           " (https://ui.perfetto.dev, chrome://tracing)");
}

void StepProfile::after_step(int64_t done, int64_t total) {
  if (file_.empty()) return;
  ++seen_;
  if (active_) {
    ++profiled_;
    if (profiled_ == kSteps || done == total) finish();
  } else if (profiled_ == 0 && done < total && (seen_ >= kWarmUp || done + 1 == total)) {
    start();
  } else if (profiled_ == 0 && done == total) {
    log_warning("--profile: a run of one step has none to profile after it has taken its memory");
  }
}

}  // namespace fathom::app
