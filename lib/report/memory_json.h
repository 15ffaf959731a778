// memory.json and `estimate --json`: a plan and what became of it, in one schema; sizes are integers in bytes.
#pragma once

#include "base/json.h"
#include "plan/plan.h"

namespace fathom::report {

inline constexpr int kMemorySchemaVersion = 1;

// A figure that is not known is null; its key is there all the same. A phase that neither the dry run nor the run has
// seen is left out.
Json memory_json(const plan::Comparison& comparison);

}  // namespace fathom::report
