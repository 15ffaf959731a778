// Whether attention's output is what its kernel keeps.
#pragma once

#include "footprint/attention.h"

namespace fathom::footprint {

// Who reads the output gets another tensor than the one that is kept for the backward pass: one of its heads side by
// side, without what they were padded with. By the formula none is kept.
bool output_is_apart(const StepSizes& step, const AttentionSizes& sizes);

}  // namespace fathom::footprint
