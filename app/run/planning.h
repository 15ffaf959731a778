// Plans for the commands: which hardware, how it is asked, and the refusal of what cannot fit.
#pragma once

#include "app/invocation.h"
#include "app/run/session.h"
#include "plan/advice/search.h"
#include "plan/communicators.h"
#include "play/make_plan.h"
#include "schedule/inputs.h"

namespace fathom::app {

// Asks child processes of this program, which start at the first question and end with the last copy of this function.
play::AskPhantom ask_phantom_children();

// What a plan counts of a run: no evaluations that it ends before, of which a warning tells.
arch::Run planned_run(const arch::Run& run, const data::Dataset& dataset);

// What a run loses that rounds weights in BF16 to nearest, and what to do: full training
// (config::rounds_weights_to_nearest), or what modules_to_save trains. Empty: nothing.
std::string lost_updates(const arch::Run& run);
void warn_of_lost_updates(const arch::Run& run);
// That, and that gradients are not clipped where they cannot be.
void tell_of_updates(const arch::Run& run);
// Why a GPU does not run the run, and what to do; empty: it does. Of BF16 on GPUs without it.
std::string why_not_on(const config::GpuSpec& gpu, const arch::Run& run);

// Warns of a run that computes in 16 bits for which this CPU has no instructions.
void warn_of_widening(const arch::Run& run);
// Of what the run does in 16 bits, where this CPU has no instructions for them.
plan::Slowdown slowdown_on_cpu(const arch::Run& run);

// The session's GPU, and what of its memory others and this process's context have taken.
struct OwnGpu {
  config::GpuSpec gpu;
  int64_t taken_bytes = 0;
};
OwnGpu own_gpu(const Session& session, const Invocation& invocation);
// With what NCCL will take in a run of this config.
play::GpuRoom beside_communicators(play::GpuRoom room, const config::RunConfig& config);

// What plan_of counts of the run's config, after warnings of what the run loses and of what it has for nothing: once,
// however often it is planned then.
arch::Run planned_run(const config::RunConfig& config, const schedule::RunInputs& inputs, const Session& session);
// The plan of a run on the session's device, of this process; on CUDA a child process over the stub libraries plays it,
// within the memory that is free on the device now.
plan::Plan plan_of(const arch::Run& planned, const schedule::RunInputs& inputs, const schedule::Start& start,
                   const Session& session, const Invocation& invocation);
// What NCCL takes of a GPU in the run, with as many channels as the environment allows it.
plan::Communicators communicators_on(const config::GpuSpec& gpu, const config::RunConfig& config);
// The plan for a GPU that need not be there, within what NCCL leaves of it, or memory_budget if that is less. Its time
// is that of the operators, where they were measured on a GPU like it; products in TF32 were not. Throws UsageError
// where the GPU does not run the run (why_not_on).
plan::Plan plan_for_gpu(const play::Subject& subject, play::GpuRoom room,
                        const play::AskPhantom& ask = ask_phantom_children());
// The plan for the CPU, within memory_budget or its share of what the machine has left for so many processes.
plan::Plan plan_for_cpu(const play::Subject& subject, int64_t processes_here);

// Throws Error if the plan does not fit its target, unless forced: it names the component to blame and the settings
// that would help most.
void refuse_what_cannot_fit(const plan::Plan& plan, const arch::Run& run, bool force);
// Throws Error where what is to lie in the host's memory for the GPU is more than it has left.
void refuse_what_the_host_cannot_hold(const plan::Plan& plan, bool force);

}  // namespace fathom::app
