// Plans for the commands: which hardware, how it is asked, and the refusal of what cannot fit.
#pragma once

#include "app/invocation.h"
#include "app/session.h"
#include "plan/make_plan.h"
#include "train/inputs.h"

namespace fathom::app {

// Asks child processes of this program, which start at the first question and end with the last copy of this function.
plan::AskPhantom ask_phantom_children();

// The plan of a run on the session's device; on CUDA a child process over the stub libraries plays it, within the
// memory that is free on the device now.
plan::Plan plan_of(const config::RunConfig& config, const train::RunInputs& inputs, const Session& session,
                   const Invocation& invocation);
// The plan for a GPU that need not be there.
plan::Plan plan_for_gpu(const plan::Subject& subject, const config::GpuSpec& gpu, int placements);

// Throws Error naming the largest component if the plan's peak of live bytes exceeds the target's capacity, unless
// forced.
void refuse_what_cannot_fit(const plan::Plan& plan, bool force);

}  // namespace fathom::app
