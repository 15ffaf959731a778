// From a run's config and data to its plan: the analytic estimate and the dry run, for this machine's CPU or for a
// named GPU.
#pragma once

#include <functional>
#include <string>

#include "arch/run.h"
#include "config/devices.h"
#include "plan/plan.h"
#include "play/exchange.h"
#include "weights/folder.h"

namespace fathom::play {

// What is planned. folder: may lack weights; then the model is initialised instead of loaded.
struct Subject {
  const arch::Run& run;
  const weights::ModelFolder& folder;
  plan::Workload workload;
};

// The attention kernel's name for the type in which the run computes, on a device of this process (a phantom one
// too); last that of evaluations, where training has another.
std::string attention_kernel(const arch::Run& run, at::Device device);

// This machine's CPU, with as many threads as LibTorch uses; capacity and kernel are not set.
plan::Target cpu_target();

// In this process, on the phantom device. capacity_bytes: of the machine's memory; 0: unknown.
plan::Plan plan_cpu(const Subject& subject, int64_t capacity_bytes, plan::Detail detail = plan::Detail::kTimeline);

// How a phantom GPU is asked: a child process over the stub libraries gives a PhantomGpuPlayer's answer. May be called
// from several threads at once. Throws Error where there is no answer.
using AskPhantom = std::function<plan::PhantomAnswer(const plan::PhantomQuestion&)>;

// Where it is played.
struct GpuRoom {
  const config::GpuSpec& gpu;
  int64_t taken_bytes = 0;                        // of gpu.memory_bytes, by this process' context and by others
  int placements = 1;                             // of segments, tried for the ranges of allocated and reserved bytes
  plan::Detail detail = plan::Detail::kTimeline;  // kArithmetic: only of a run that fits
  std::string operator_times = {};                // the table of a GPU like it, as JSON; empty: there is none
};

// For a GPU that need not be there. Asks within what nobody has taken and memory_budget first; where these run out,
// again without limit. target.capacity_bytes is the smaller of both. The plan's seconds are those of the first run, the
// child's start apart.
plan::Plan plan_gpu(const Subject& subject, const GpuRoom& room, const AskPhantom& ask);

// What the step that computes most gives a GPU to do, however much memory it takes there, and this machine's CPU.
plan::KernelList kernels_on_gpu(const Subject& subject, const GpuRoom& room, const AskPhantom& ask);
plan::KernelList kernels_on_cpu(const Subject& subject);

// Plays the whole of the subject's schedule within the first placement, and writes what the caching allocator does to a
// file (ledger/cuda/trace.h says in which form). Throws Error where the memory does not suffice.
void plan_events(const Subject& subject, const GpuRoom& room, const AskPhantom& ask, const std::string& trace);

}  // namespace fathom::play
