// Plays a run's steps with the trainer itself on a device that is not there: the phantom device, or CUDA over stubs.
#pragma once

#include <functional>
#include <memory>

#include "dist/group.h"
#include "plan/estimate/workload.h"
#include "plan/plan.h"
#include "plan/time/kernels.h"
#include "plan/time/operator_times.h"
#include "train/trainer.h"
#include "weights/folder.h"

namespace fathom::play {

struct DryRun {
  memory::Memory memory;
  memory::Timeline timeline;  // of the step with the largest peak; empty where no one asked
  // Of the step with the most of it, as its operators were dispatched; micro-batches beyond those that the workload
  // lists count as the last one. None where no one asked.
  plan::StepArithmetic arithmetic;
  int64_t steps_played = 0;
  // The whole run was played, or nothing new can come in what was left out; else representatives were, and what depends
  // on the order of requests (the caching allocator's allocated and reserved bytes) is not exact.
  bool exact = false;
};

// Loads and plays the workload's schedule. What is known to change nothing (an event that was played before in the same
// state of the device's memory) is not played again. folder: its weights are loaded as the run would (nothing is read
// on a phantom); null, or without weights: the model is initialised instead. played: called when the schedule has been
// played, before a step is played once more whose arithmetic is wanted and was not counted yet. What repeats itself
// within a step (play/repeats.h) is played again only for a timeline; for Detail::kEvents everything is. times: of a
// device like the one that is played, null where there are none.
DryRun dry_run(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
               const train::Placement& placement, const std::function<void()>& played = nullptr,
               plan::Detail detail = plan::Detail::kTimeline, const plan::OperatorTimes* times = nullptr);

// Plays the step of the workload that computes most until it is like the next, and lists what it gives the device.
// Nothing is left out.
plan::KernelList list_kernels(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
                              const train::Placement& placement);

// What stands for the other processes of the config's run; null: it has one.
std::unique_ptr<dist::Group> played_group(const config::RunConfig& config, int64_t rank);

// The same on the phantom device, which stands in for the CPU.
DryRun dry_run_cpu(const arch::Run& run, const weights::ModelFolder* folder, const plan::Workload& workload,
                   plan::Detail detail = plan::Detail::kTimeline);

}  // namespace fathom::play
