// Starts the processes of a run on this machine, and watches over them.
#pragma once

#include <string>
#include <vector>

#include "launch/processes.h"

namespace fathom::launch {

// Runs this program with these arguments once for each process of the node, told its rank as torchrun would, and waits
// for all. Signals that ask the run to stop go to all of them. When one fails, the others have a few seconds to say
// what they know of it, then they are ended. Returns the exit status of the first that failed, or 0. Throws Error where
// they cannot be started.
int start_processes(const Node& node, const std::vector<std::string>& arguments);

}  // namespace fathom::launch
