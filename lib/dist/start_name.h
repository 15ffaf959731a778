// Which start of a run this is, where the store of addresses outlives one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace fathom::dist {

// A name of this start that all ranks agree on and no start before has had, whatever those left in the store and
// however far they came. (torchrun keeps its store when it starts processes again, and counts restarts on each machine
// for itself: not those that another machine's failure made.) Throws Error that names a rank that has not come within
// the timeout.
std::string agree_on_start(c10d::Store& store, int64_t rank, int64_t size, std::chrono::milliseconds timeout);

}  // namespace fathom::dist
