// Dry runs on a phantom GPU, for the tests of the analytic estimate.
#pragma once

#include "base/json_value.h"

namespace fathom::phantom {

// request: "seed" and "count" of runs of the memory matrix, and as many large ones (tests/plan). Answer, one object per
// run: "name", "attention_kernel", "memory" (memory/memory_json.h).
Json predict_sample(const Json& request);

}  // namespace fathom::phantom
