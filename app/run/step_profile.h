// A trace of a few steps by LibTorch's own profiler: on a GPU kernels, copies and launches, on a CPU operators.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace fathom::app {

// Profiles up to three steps in the middle of a run, from the third on, and writes what Perfetto and chrome://tracing
// show. On a GPU the profiler takes device memory beneath LibTorch's allocator, which the driver's figure shows.
class StepProfile {
 public:
  // file: empty profiles nothing; throws Error where it cannot be written. kernels: of a real GPU; a phantom's steps
  // are profiled as operators of the host.
  StepProfile(std::filesystem::path file, bool kernels);
  // Stops without a trace where a step has failed.
  ~StepProfile();
  StepProfile(const StepProfile&) = delete;
  StepProfile& operator=(const StepProfile&) = delete;

  // Call between steps, on the thread that takes them. done, total: steps of the run.
  void after_step(int64_t done, int64_t total);
  // Why the trace could not be written; empty: it was, or its steps have not come.
  const std::string& failure() const { return failure_; }

 private:
  void start();
  void finish();

  std::filesystem::path file_;
  bool kernels_;
  int64_t seen_ = 0;      // steps of this process
  int64_t profiled_ = 0;  // of these
  bool active_ = false;
  std::string failure_;
};

}  // namespace fathom::app
