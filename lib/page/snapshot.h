// A timeline as the snapshot that `python -m torch.cuda._memory_viz` and https://pytorch.org/memory_viz open.
#pragma once

#include <string>

#include "memory/timeline.h"

namespace fathom::page {

// A pickle of the form of torch.cuda.memory._snapshot(): one trace with an event for each allocation (alloc) and
// release (free_requested, free_completed), first those of what was alive before the stretch, and one segment with the
// blocks that are alive at its end. Frames say tensor, operator, module and component; the component is the category
// too. Kernel scratch is left out. Addresses are invented, the lowest that is free; blocks of 0 bytes have none and are
// left out.
std::string snapshot_pickle(const memory::Timeline& timeline);

}  // namespace fathom::page
