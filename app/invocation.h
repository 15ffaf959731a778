// What the torch-free program hands to the engine: a command on LibTorch, with what every one of them needs to be said.
#pragma once

#include "app/command.h"
#include "config/devices.h"
#include "config/run_config.h"

namespace fathom::app {

class Invocation;
// Loads the engine, then runs the command there; returns the exit status.
int run_in_engine(const Invocation& invocation);

class Invocation : public Command {
 public:
  using Command::Command;
  int run() const override { return run_in_engine(*this); }

  config::RunConfig config;    // the file, or the model, with overrides
  bool chose_kernels = false;  // config.cuda_kernels is what the program takes on this machine, not what it was told
  // The device that the run uses: kCpu or kCuda, never kAuto. For kCuda libtorch_cuda and libfathom_cuda are loaded,
  // for every name visible (RTLD_GLOBAL); a phantom GPU's stubs stand beneath them if phantom_gpu is set.
  config::Device device = config::Device::kCpu;
  std::optional<config::GpuSpec> phantom_gpu;  // the pretended GPU,
  uint64_t placement = 0;                      //   where its segments lie,
  std::filesystem::path segments;              //   or the trace of a run whose segments lie there
  std::filesystem::path trace;                 // on CUDA: a file for the allocator's events; empty: none
  std::filesystem::path planned_trace;         //   and one for those of the plan, to be held against them
  std::optional<config::GpuSpec> gpu;          // another GPU to plan for; unset: the config's device
};

}  // namespace fathom::app
