// A plan, and what became of it, as tables and sentences for the terminal.
#pragma once

#include <string>

#include "plan/plan.h"

namespace fathom::report {

// "equal to the byte …" or where and by how much the two differ: the peak, each component at the peak and at its own
// maximum, each phase's peak and end. Phases that only one of the two has seen are named. Kernel scratch is not
// compared.
// ended_early: the run took fewer steps than its plan has; that it needed less is then no fault of the plan.
std::string describe_agreement(const memory::Memory& dry_run, const memory::Memory& measured, bool ended_early = false);

// "Over 4 placements of the allocator's segments: allocated 10 … 12, reserved 20": bytes, without an end.
std::string format_placements(int64_t placements, const plan::ByteRange& allocated, const plan::ByteRange& reserved);

// A plan in short, before the run that will have format_memory at its end: what was played, the peak with its largest
// components, whether it fits.
std::string format_plan(const plan::Plan& plan);

// Everything: what was played, bytes per component and per phase (analytic | dry run | measured | difference), the
// caching allocator's bytes for a GPU, whether it fits, and how dry run and measurement agree. Without a measurement
// its columns are left out, and analytic is compared with the dry run.
std::string format_memory(const plan::Comparison& comparison, bool ended_early = false);

}  // namespace fathom::report
