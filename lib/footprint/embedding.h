// What the embedding takes.
#pragma once

#include <cstdint>

#include "footprint/footprint.h"

namespace fathom::footprint {

// Of the backward pass alone, beside the gradient itself: tied or not.
Footprint embedding_footprint(const StepSizes& step, int64_t vocabulary, int64_t width, bool tied);

}  // namespace fathom::footprint
