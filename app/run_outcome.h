// What a run has come to, on stdout.
#pragma once

#include "dist/group.h"
#include "plan/plan.h"
#include "train/loop.h"

namespace fathom::app {

void print_outcome(const train::RunResult& result);

// Planned and measured bytes of each process at its peak. Every rank calls it; the first prints.
void print_processes(const plan::Comparison& comparison, dist::Group& group);

}  // namespace fathom::app
